"""Evictions: how many, whose turn it is, which budgets are known, and what happens if one is refused."""

import asyncio
from collections.abc import AsyncIterator, Container
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from math import inf
from typing import Any
from unittest.mock import AsyncMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.changes import Changed, Refused, Removed, Replaced
from reconciler.api.objects.core import Pod, PodDisruptionBudget
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.versions.reading import read
from reconciler.cluster.pod_writer import Evictions
from reconciler.cluster.transport import PauseReasons
from reconciler.control.decisions.declaration import Decision
from reconciler.control.decisions.every import Evicted
from reconciler.control.gangs.planner import GangPlanner
from reconciler.control.handler import Decide
from reconciler.control.ownership import Ownership
from reconciler.control.pausing import Pause
from reconciler.control.planner import Planner
from reconciler.control.relocation.evictor import (
    AGAIN,
    HOUR,
    LONGEST_AGAIN,
    MINUTE,
    PAUSED,
    Evictor,
    KnownBudgets,
    Purpose,
    Rates,
    Turns,
)
from reconciler.control.relocation.ground import Victim
from reconciler.control.relocation.preemptor import PAUSE, Preemptor
from reconciler.control.relocation.relocator import Candidates, Means, RoomPlan, Terms
from reconciler.control.units import Unit
from reconciler.control.waiting import Pending
from reconciler.errors import Conflict, Gone, Protected, ReconcilerError, Rejected, Retry, Undecided
from reconciler.state.nominations import HeldPlace, of_pod
from tests.tools.small_fleet import DRIVER, claim, device_class, held, pod
from tests.tools.unit_pictures import claim_unit, intake, key, pod_unit


@given(st.lists(st.floats(0, 900), max_size=40), st.integers(1, 4), st.integers(1, 8))
def test_no_minute_and_no_hour_has_more_than_is_allowed(gaps: list[float], minute: int, hour: int):
    rates, now = Rates(minute, hour), 0.0
    granted: list[float] = []
    for gap in gaps:
        now += gap
        wait = rates.wait(now)
        lately = [len([at for at in granted if now - span < at]) for span in (MINUTE, HOUR)]
        assert (wait <= 0) == (lately[0] < minute and lately[1] < hour)
        if wait <= 0:
            rates.count(now)
            granted.append(now)


def test_it_says_how_long_to_wait():
    rates = Rates(2, 3)
    for now in (0.0, 10.0):
        rates.count(now)
    assert rates.wait(20.0) == 40.0
    assert rates.wait(60.0) == 0.0
    rates.count(60.0)
    assert rates.wait(70.0) == 3530.0
    assert rates.wait(9_000.0, 2) == 0.0
    assert rates.wait(9_000.0, 3) == inf


def test_only_one_has_its_turn():
    turns = Turns()
    assert turns.take(Purpose.REBALANCING)
    assert not turns.take(Purpose.PREEMPTION)
    turns.end(Purpose.REBALANCING)
    assert turns.take(Purpose.PREEMPTION)


def test_who_makes_room_for_pending_pods_comes_first():
    """It asks; who moves pods learns of it, ends, and gets no turn before it is over."""
    turns = Turns()
    turns.take(Purpose.REBALANCING)
    assert not turns.yields(Purpose.REBALANCING)
    turns.take(Purpose.PREEMPTION)
    assert turns.yields(Purpose.REBALANCING)
    turns.end(Purpose.REBALANCING)
    assert not turns.take(Purpose.REBALANCING)
    assert turns.take(Purpose.PREEMPTION)
    turns.end(Purpose.PREEMPTION)
    assert turns.take(Purpose.REBALANCING)


def test_who_needs_no_turn_any_more_is_not_waited_for():
    turns = Turns()
    turns.take(Purpose.REBALANCING)
    turns.take(Purpose.PREEMPTION)
    turns.end(Purpose.PREEMPTION)
    assert not turns.yields(Purpose.REBALANCING)


KIND = "PodDisruptionBudget"


def budget(name: str, **status: Any) -> PodDisruptionBudget:
    metadata = {"name": name, "namespace": "default"}
    found = read({"apiVersion": "policy/v1", "kind": KIND, "metadata": metadata, "status": status})
    assert isinstance(found, PodDisruptionBudget)
    return found


def test_a_listing_replaces_all_and_events_change_one():
    known = KnownBudgets()
    assert not known.listed
    known.take(Replaced(KIND, (budget("a"), budget("b")), ()))
    assert known.listed
    known.take(Changed(KIND, budget("a", disruptionsAllowed=1)))
    known.take(Removed(KIND, key("b")))
    assert [(one.key, one.status.disruptions_allowed) for one in known.known] == [(key("a"), 1)]
    known.take(Replaced(KIND, (), ()))
    assert known.known == ()


def test_what_was_done_without_waits_for_the_list():
    known = KnownBudgets()
    known.go_without()
    assert known.listed
    known.go_with()
    assert not known.listed
    assert not known.unknown
    known.take(Replaced(KIND, (budget("a"),), ()))
    known.go_with()
    assert known.listed


def test_one_that_cannot_be_read_is_remembered_until_it_is_fixed():
    """Nobody knows which pods it covers."""
    known = KnownBudgets()
    known.take(Replaced(KIND, (), (Refused(KIND, key("a"), "broken"),)))
    assert known.unreadable == {key("a")}
    known.take(Refused(KIND, key("b"), "broken"))
    known.take(Changed(KIND, budget("a")))
    assert known.unreadable == {key("b")}
    known.take(Removed(KIND, key("b")))
    assert known.unreadable == set()


VICTIM = Victim(ObjectKey("default", "p"), "u", ())
GRANTED = Evicted(VICTIM.key, VICTIM.uid, of_pod(ObjectKey("default", "q")))


class Answering(Evictions):
    """Gives the answers of a list, one after the other; None grants."""

    def __init__(self, *answers: ReconcilerError | None) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def evict(self, pod: ObjectKey, uid: str, *, dry_run: bool = False) -> None:  # noqa: ARG002
        self.asked.append(uid)
        if (answer := self._answers.pop(0)) is not None:
            raise answer


class Made:
    def __init__(self, *answers: ReconcilerError | None, why: str = "", per_minute: int = 1) -> None:
        self.said: list[Decision] = []
        reasons = PauseReasons()
        if why:
            reasons.set("test", why)
        self.evictions = Answering(*answers)
        self.evictor = Evictor(
            self.evictions,
            Rates(per_minute, 100),
            Pause(reasons, self.said.append, lambda _: None),
            clock=lambda: 0.0,
            report=self.said.append,
        )


async def test_what_was_granted_is_said_and_counted():
    made = Made(None)
    assert made.evictor.wait() == 0
    assert await made.evictor.evict(VICTIM, GRANTED) is None
    assert made.said == [GRANTED]
    assert made.evictions.asked == ["u"]
    assert made.evictor.wait() > 0


async def test_a_pod_that_is_gone_leaves_without_being_counted():
    made = Made(Gone("no such pod"))
    assert await made.evictor.evict(VICTIM, GRANTED) is None
    assert made.said == []
    assert made.evictor.wait() == 0


@pytest.mark.parametrize(
    "answer", [Protected("a budget"), Retry("busy"), Conflict("another pod of its name")]
)
async def test_what_was_not_allowed_is_tried_again_later_and_later(answer: ReconcilerError):
    made = Made(*[answer] * 8)
    delays = [await made.evictor.evict(VICTIM, GRANTED) for _ in range(8)]
    assert delays[:3] == [2 * AGAIN, 4 * AGAIN, 8 * AGAIN]
    assert delays[-1] == LONGEST_AGAIN
    assert made.evictor.wait() == 0


async def test_the_server_may_ask_for_more_time():
    made = Made(Retry("busy", after=100.0))
    assert await made.evictor.evict(VICTIM, GRANTED) == 100.0


async def test_each_pod_of_a_plan_has_delays_of_its_own():
    made = Made(*[Protected("a budget")] * 5)
    for _ in range(2):
        await made.evictor.evict(VICTIM, GRANTED)
    assert await made.evictor.evict(VICTIM._replace(uid="other"), GRANTED) == 2 * AGAIN
    assert await made.evictor.evict(VICTIM, GRANTED) == 8 * AGAIN
    await made.evictor.withdraw()
    assert await made.evictor.evict(VICTIM, GRANTED) == 2 * AGAIN


async def test_without_an_answer_it_counts_since_it_may_have_been_granted():
    made = Made(Undecided("no answer"))
    assert await made.evictor.evict(VICTIM, GRANTED) == 2 * AGAIN
    assert made.evictor.wait() > 0
    assert made.said == []


async def test_what_had_no_answer_is_said_once_the_pod_leaves():
    made = Made(Undecided("no answer"), Gone("no such pod"))
    await made.evictor.evict(VICTIM, GRANTED)
    made.evictor.leaves(VICTIM._replace(uid="other"))
    assert made.said == []
    await made.evictor.evict(VICTIM, GRANTED)
    made.evictor.leaves(VICTIM)
    assert made.said == [GRANTED]


@pytest.mark.parametrize(
    ("later", "uid", "said"),
    [
        (Protected("a budget"), "u", []),
        (Protected("a budget"), "other", [GRANTED]),
        (Retry("busy"), "u", [GRANTED]),
    ],
)
async def test_what_had_no_answer_and_then_a_budget_forbids_was_not_granted(
    later: ReconcilerError, uid: str, said: list[Decision]
):
    made = Made(Undecided("no answer"), later)
    await made.evictor.evict(VICTIM, GRANTED)
    await made.evictor.evict(VICTIM._replace(uid=uid), GRANTED)
    made.evictor.leaves(VICTIM)  # also if somebody else deletes it
    assert made.said == said


async def test_what_is_rejected_is_not_tried_again():
    made = Made(Rejected("forbidden"))
    with pytest.raises(Rejected):
        await made.evictor.evict(VICTIM, GRANTED)


async def test_what_could_be_evicted_is_neither_counted_nor_said():
    made = Made(None, Gone("no such pod"), Undecided("no answer"), Rejected("forbidden"))
    assert await made.evictor.check([VICTIM, VICTIM]) is None
    assert await made.evictor.check([VICTIM]) == 2 * AGAIN
    with pytest.raises(Rejected):
        await made.evictor.check([VICTIM])
    made.evictor.leaves(VICTIM)
    assert made.said == []
    assert made.evictor.wait() == 0


async def test_nothing_is_sent_while_writes_are_paused():
    made = Made(why="a test")
    assert await made.evictor.evict(VICTIM, GRANTED) == PAUSED
    assert await made.evictor.check([VICTIM]) == PAUSED
    assert made.evictions.asked == []


# -- Which pending pods may preempt, and whether they keep others from being moved.


def candidates(*objects: dict[str, Any], classes: tuple[str, ...] = ("high",)) -> Candidates:
    """All pods and claims of these objects are pending."""
    found, pending = intake(device_class(), *objects), Pending()
    for name in found.store.pods:
        pending.note(pod_unit(name.name), "DevicesInUse", [name])
    for name in found.store.claims:
        pending.note(claim_unit(name.name), "DevicesInUse", [name])
    planner = Planner(found.store, found.roster, found.placement, Ownership(alone=True), found.reclaimed)
    gangs = GangPlanner(found.units, planner, found.nodes.on_demand)
    return Candidates(found, pending, planner, gangs, frozenset(classes))


def wanting(name: str, priority: int, **spec: Any) -> dict[str, Any]:
    return pod(name, "c", priority=priority, **{"priorityClassName": "high", **spec})


async def test_the_most_important_pod_comes_first():
    found = candidates(claim("c"), wanting("less", 10), wanting("most", 1000))
    assert found.units() == [pod_unit("most"), pod_unit("less")]


@pytest.mark.parametrize(
    "spec", [{"priorityClassName": "other"}, {"preemptionPolicy": "Never"}, {"gates": ()}]
)
async def test_nobody_else_may(spec: dict[str, Any]):
    assert candidates(claim("c"), wanting("p", 10, **spec)).units() == []


@pytest.mark.parametrize("spec", [{"priorityClassName": "other"}, {"preemptionPolicy": "Never"}])
async def test_who_shares_a_pending_claim_has_to_agree(spec: dict[str, Any]):
    found = candidates(claim("c"), wanting("p", 10), wanting("q", -10, **spec))
    assert found.units() == []
    assert [pod.key for pod in found.judged(pod_unit("p"))] == [key("p"), key("q")]


async def test_who_shares_an_allocated_claim_is_not_asked():
    shared = {**claim("d"), "status": held(DRIVER, "n", "gpu-0", on="n")}
    both = pod("p", "c", "d", priority=10, priorityClassName="high")
    found = candidates(claim("c"), shared, both, pod("q", "d", preemptionPolicy="Never"))
    assert found.units() == [pod_unit("p")]
    assert [pod.key for pod in found.judged(pod_unit("p"))] == [key("p")]
    assert [pod.key for pod in found.sharers(pod_unit("p"))] == [key("q")]


async def test_no_class_means_nobody():
    assert candidates(claim("c"), wanting("p", 10, priorityClassName=""), classes=()).units() == []


async def test_a_pod_asks_for_its_claims_and_room_is_held_for_it():
    found = candidates(claim("c"), wanting("p", 10))
    need = found.need(pod_unit("p"))
    assert isinstance(need, Decide)
    assert [one.key for one in need.claims] == [key("c")]
    assert found.nominee(pod_unit("p")) == of_pod(key("p"))
    assert found.sharing(need) == ()


async def test_the_other_gated_pods_of_a_claim_are_known():
    found = candidates(claim("c"), wanting("p", 10), wanting("q", 10))
    need = found.need(pod_unit("p"))
    assert need is not None
    assert [(other.key, at) for other, _, at in found.sharing(need)] == [(key("q"), (0,))]


A, B = pod_unit("a"), pod_unit("b")
WHEN_OTHERS_LEAVE = RoomPlan((), (HeldPlace("n"),), awaits=True)


class FewCandidates(Candidates):
    """Some pods that wait for room, of which some need no devices now."""

    def __init__(self) -> None:
        self.pending: tuple[Unit, ...] = ()
        self.needing: Container[Unit] = ()

    def units(self) -> list[Unit]:
        return list(self.pending)

    def need(self, unit: Unit) -> Any:
        return unit if unit in self.needing else None

    def judged(self, unit: Unit) -> list[Pod]:  # noqa: ARG002
        return []

    def sharers(self, unit: Unit) -> list[Pod]:  # noqa: ARG002
        return []


class Making:
    """Room is made while a pod is moved. What is planned always waits for pods that leave by themselves."""

    def __init__(self) -> None:
        self.turns, self.pending = Turns(), FewCandidates()
        self.turns.take(Purpose.REBALANCING)
        budgets, picture = KnownBudgets(), intake()
        budgets.listed = True
        picture.listed.set()
        unused: Any = None
        self.leads, self.requests = True, AsyncMock()
        pause = Pause(PauseReasons(), unused, unused)
        means = Means(
            picture,
            budgets,
            Evictor(unused, unused, pause, clock=unused, report=unused, requests=self.requests),
            self.turns,
            leads=lambda: self.leads,
            clock=asyncio.get_running_loop().time,
            now=lambda: datetime.now(UTC),
            report=lambda _: None,
        )
        terms = Terms(evict=True, hold_seconds=1.0, cooldown_seconds=0.0)
        self.preemptor = Preemptor(means, self.pending, unused, lambda *_: WHEN_OTHERS_LEAVE, terms)

    async def kept_from_moving(self, *pending: Unit, needing: Container[Unit]) -> bool:
        """Whether no pod may be moved after these were pending for a while."""
        self.pending.pending, self.pending.needing = pending, needing
        await asyncio.sleep(3 * PAUSE)
        return self.turns.yields(Purpose.REBALANCING)


@asynccontextmanager
async def making() -> AsyncIterator[Making]:
    made = Making()
    task = asyncio.create_task(made.preemptor.run())
    yield made
    task.cancel()
    await asyncio.wait([task])


async def test_who_needs_no_room_any_more_keeps_nobody_from_moving():
    async with making() as room:
        assert await room.kept_from_moving(A, needing={A})
        await asyncio.sleep(AGAIN)
        assert not await room.kept_from_moving(A, needing=())


async def test_who_is_not_pending_any_more_keeps_nobody_from_moving_though_others_back_off():
    async with making() as room:
        assert not await room.kept_from_moving(B, needing=())
        assert await room.kept_from_moving(A, B, needing={A})
        assert not await room.kept_from_moving(B, needing=())


async def test_who_needs_no_room_does_not_give_up_the_turn_that_another_waits_for():
    async with making() as room:
        assert await room.kept_from_moving(A, needing={A})
        assert await room.kept_from_moving(A, B, needing={A})


async def test_each_time_that_it_begins_to_lead_it_withdraws_what_an_earlier_leader_asked_for():
    async with making() as room:
        room.turns.end(Purpose.REBALANCING)
        for leads in (True, True, False, True, True):
            room.leads = leads
            await asyncio.sleep(AGAIN)
        assert room.requests.withdraw_all.await_count == 2
