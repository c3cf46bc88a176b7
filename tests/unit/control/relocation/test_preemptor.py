"""Which pending pods may preempt, and whether they keep others from being moved."""

import asyncio
from collections.abc import AsyncIterator, Container
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from reconciler.api.objects.core import Pod
from reconciler.control.gangs.planner import GangPlanner
from reconciler.control.ownership import Ownership
from reconciler.control.planner import Decide, Planner
from reconciler.control.relocation.candidates import Candidates, RoomPlan
from reconciler.control.relocation.evictor import AGAIN, KnownBudgets, Purpose, Turns
from reconciler.control.relocation.preemptor import PAUSE, Preemptor
from reconciler.control.relocation.relocator import Means, Terms
from reconciler.control.units import Unit
from reconciler.control.waiting import Pending
from reconciler.state.nominations import HeldPlace, of_pod
from tests.tools.small_fleet import DRIVER, claim, device_class, held, pod
from tests.tools.unit_pictures import claim_unit, intake, key, pod_unit


def candidates(*objects: dict[str, Any], classes: tuple[str, ...] = ("high",)) -> Candidates:
    """All pods and claims of these objects are pending."""
    found, pending = intake(device_class(), *objects), Pending()
    for name in found.store.pods:
        pending.note(pod_unit(name.name), "DevicesInUse", [name])
    for name in found.store.claims:
        pending.note(claim_unit(name.name), "DevicesInUse", [name])
    planner = Planner(found.store, found.roster, found.placement, Ownership(alone=True), found.reclaimed)
    gangs = GangPlanner(found.store, found.roster, found.gangs, found.groups, found.nodes.on_demand, planner)
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
        means = Means(
            picture,
            budgets,
            unused,
            self.turns,
            leads=lambda: True,
            clock=asyncio.get_running_loop().time,
            now=lambda: datetime.now(UTC),
            report=lambda _: None,
        )
        terms = Terms(evict=True, dry_run=False, hold_seconds=1.0, cooldown_seconds=0.0)
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
