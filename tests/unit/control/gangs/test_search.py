"""Long searches for gangs: in a thread, and checked against what changed meanwhile."""

import asyncio
import threading
from typing import Any
from unittest.mock import Mock

import pytest

from reconciler.allocation.dra.budget import Unfinished
from reconciler.allocation.gangs.kinds import GangGranted, GangUnsatisfied
from reconciler.api.objects.gangs import GangKey, GangSource
from reconciler.control import background_search
from reconciler.control.gangs.planner import GangPlanner, Solve
from reconciler.control.gangs.search import Answer, GangSearch
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.planner import Planner
from reconciler.control.units import gang_unit
from reconciler.control.waiting import Wants
from tests.tools.gangs import annotated
from tests.tools.patience import PATIENCE
from tests.tools.small_fleet import DRIVER, Object, claim, device_class, devices, held, node, pod
from tests.tools.unit_pictures import intake, key, put, remove
from tests.tools.unit_pictures import taken as queued

pytestmark = pytest.mark.loopback  # threads need real time
G = GangKey("default", GangSource.ANNOTATION, "g")
GANG = [claim("a"), claim("b"), annotated("p0", "a", size=2), annotated("p1", "b", size=2)]


class Searching:
    """A gang of two pods with a device each, on four nodes with one, searched in the thread."""

    def __init__(self, *more: Object) -> None:
        names = [f"n{at}" for at in range(4)]
        nodes = [node(name) for name in names]
        self.intake: Intake = intake(
            device_class(), *nodes, *(devices(name, "d0") for name in names), *GANG, *more
        )
        ours = Ownership(alone=True)
        found = self.intake
        claims = Planner(found.store, found.roster, found.placement, ours, found.reclaimed)
        self.planner = GangPlanner(found.units, claims, found.nodes.on_demand)
        self.search = GangSearch(found, ours, steps=10_000)

    def solve(self) -> Solve:
        step = self.planner.next(G)
        assert isinstance(step, Solve)
        return step

    def ask(self) -> Answer | None:
        return self.search.answer(self.solve())

    async def turn(self) -> Answer | None:
        """The answer in the next turn of the gang."""
        async with asyncio.timeout(PATIENCE):
            while True:
                async with self.intake.queue.take() as unit:
                    if unit == gang_unit(G):
                        return self.ask()


@pytest.fixture(autouse=True)
def _everything_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GangSearch, "quick_steps", 0)


def nodes_of(found: Any) -> list[str]:
    answer = found
    assert isinstance(answer, GangGranted), answer
    return [seat.node for seat in answer.seats]


def taken(name: str, on: str) -> Object:
    return {**claim(name), "status": held(DRIVER, on, "d0", on=on)}


async def test_the_thread_answers_and_leaves_the_state_alone():
    world = Searching()
    assert world.ask() is None
    while (found := await world.turn()) is None:
        pass
    assert nodes_of(found) == ["n0", "n1"]
    assert not list(world.intake.store.assumptions)
    assert world.intake.nodes.room.charged(key("p0")) is None


@pytest.mark.parametrize(
    ("news", "nodes"), [([taken("other", "n1")], ["n0", "n2"]), ([taken("other", "n3")], ["n0", "n1"])]
)
async def test_devices_that_were_taken_meanwhile_are_not_given(news: list[Object], nodes: list[str]):
    world = Searching()
    assert world.ask() is None
    put(world.intake, *news, pod("idle", gates=(), nodeName="n0"))
    while (found := await world.turn()) is None:
        pass
    assert nodes_of(found) == nodes


async def test_a_gang_that_lost_a_pod_is_requeued():
    world = Searching()
    assert world.ask() is None
    remove(world.intake, "Pod", "p1")
    async with asyncio.timeout(PATIENCE):
        while world.search._lane.works_for(gang_unit(G)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert gang_unit(G) in await queued(world.intake)
    assert not isinstance(world.planner.next(G), Solve)


async def test_a_refusal_says_how_many_fit():
    world = Searching(*(taken(f"t{at}", f"n{at}") for at in range(3)))
    found = world.ask()
    while found is None:
        found = await world.turn()
    assert isinstance(found, GangUnsatisfied)
    assert found.fits == 1


async def test_what_changed_since_the_search_counts_for_a_refusal_that_is_outdated(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(background_search, "REPEATS", 1)
    monkeypatch.setattr(GangSearch, "on_loop", Mock(side_effect=Unfinished))
    world = Searching(*(taken(f"t{at}", f"n{at}") for at in range(3)))
    assert world.ask() is None
    remove(world.intake, "ResourceClaim", "t0")
    while (found := await world.turn()) is None:
        pass
    assert isinstance(found, GangUnsatisfied)
    assert world.intake.waiting.missed(gang_unit(G), Wants(frozenset(), room=True))
    assert not world.intake.waiting.missed(gang_unit(G), Wants(frozenset(), room=True))


async def test_another_gang_waits_for_the_thread_and_is_requeued():
    world, go_on = Searching(), threading.Event()
    other = asyncio.create_task(world.search._lane.thread.run(lambda _: go_on.wait(PATIENCE)))
    await asyncio.sleep(0)
    assert world.ask() is None
    assert not world.search._lane.works_for(gang_unit(G))
    go_on.set()
    assert await other
    world.search._lane.release()
    assert gang_unit(G) in await queued(world.intake)


async def test_a_closed_search_ends():
    world = Searching()
    assert world.ask() is None
    world.search.close()
    async with asyncio.timeout(PATIENCE):
        while world.search._lane.works_for(gang_unit(G)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
