"""Evictions: how many, whose turn it is, which budgets are known, and what happens if one is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.changes import Changed, Refused, Removed, Replaced
from reconciler.api.objects.core import PodDisruptionBudget
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.versions.reading import read
from reconciler.cluster.pod_writer import Evictions
from reconciler.cluster.transport import PauseReasons
from reconciler.control.decisions.declaration import Decision
from reconciler.control.decisions.every import Evicted
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
from reconciler.control.waiting import Pause
from reconciler.errors import Conflict, Gone, Protected, ReconcilerError, Rejected, Retry, Undecided
from reconciler.state.nominations import of_pod
from tests.tools.unit_pictures import key


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


async def test_another_pod_starts_with_the_shortest_delay():
    made = Made(Protected("a budget"), Protected("a budget"), Protected("a budget"))
    for _ in range(2):
        await made.evictor.evict(VICTIM, GRANTED)
    assert await made.evictor.evict(VICTIM._replace(uid="other"), GRANTED) == 2 * AGAIN


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


async def test_nothing_is_sent_while_writes_are_paused():
    made = Made(why="a test")
    assert await made.evictor.evict(VICTIM, GRANTED) == PAUSED
    assert made.evictions.asked == []
