"""Long searches for gangs: in a thread, and checked against what changed meanwhile."""

import asyncio
import threading
from typing import Any

import pytest

from reconciler.allocation.gangs.kinds import GangGranted, GangUnsatisfied
from reconciler.api.objects.gangs import GangKey, GangSource
from reconciler.control.gangs import search
from reconciler.control.gangs.planner import GangPlanner, Solve
from reconciler.control.gangs.search import GangSearch
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.planner import Planner
from reconciler.control.units import gang_unit
from tests.tools.gangs import annotated
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
        self.planner = GangPlanner(
            found.store, found.roster, found.gangs, found.groups, found.nodes.on_demand, claims
        )
        self.search = GangSearch(found, self.planner, ours, steps=10_000)

    def solve(self) -> Solve:
        step = self.planner.next(G)
        assert isinstance(step, Solve)
        return step

    async def begin(self) -> "asyncio.Task[Any]":
        """A search that has its forks, and no answer."""
        task = asyncio.create_task(self.search.answer(self.solve()))
        await asyncio.sleep(0)
        return task


@pytest.fixture(autouse=True)
def _everything_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "QUICK_STEPS", 0)


def nodes_of(found: Any) -> list[str]:
    answer = found.answer
    assert isinstance(answer, GangGranted), answer
    return [seat.node for seat in answer.seats]


def taken(name: str, on: str) -> Object:
    return {**claim(name), "status": held(DRIVER, on, "d0", on=on)}


async def test_the_thread_answers_and_leaves_the_state_alone():
    world = Searching()
    assert nodes_of(await (await world.begin())) == ["n0", "n1"]
    assert not list(world.intake.store.assumptions)
    assert world.intake.nodes.room.charged(key("p0")) is None


async def test_devices_that_were_taken_meanwhile_are_not_given():
    world = Searching()
    task = await world.begin()
    put(world.intake, taken("other", "n1"))
    assert nodes_of(await task) == ["n0", "n2"]


async def test_other_changes_do_not_matter(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(search, "REPEATS", 1)
    world = Searching()
    task = await world.begin()
    put(world.intake, taken("other", "n3"), pod("idle", gates=(), nodeName="n0"))
    assert nodes_of(await task) == ["n0", "n1"]


async def test_a_gang_that_lost_a_pod_gets_no_answer_and_is_requeued():
    world = Searching()
    task = await world.begin()
    remove(world.intake, "Pod", "p1")
    assert await task is None
    assert gang_unit(G) in await queued(world.intake)


async def test_a_refusal_is_repeated_after_a_change():
    world = Searching(*(taken(f"t{at}", f"n{at}") for at in range(3)))
    task = await world.begin()
    found = await task
    assert isinstance(found.answer, GangUnsatisfied)
    assert found.answer.fits == 1


async def test_another_gang_waits_for_the_thread_and_is_requeued():
    world, go_on = Searching(), threading.Event()
    other = asyncio.create_task(world.search._thread.run(lambda _: go_on.wait(10)))
    await asyncio.sleep(0)
    assert await world.search.answer(world.solve()) is None
    go_on.set()
    assert await other


async def test_a_repeat_waits_for_a_gang_that_took_the_thread_meanwhile():
    world, go_on = Searching(), threading.Event()
    task = await world.begin()
    put(world.intake, taken("other", "n1"))  # outdates the answer
    while world.search._thread.busy:  # no await: the thread is free before its caller goes on
        pass
    other = asyncio.create_task(world.search._thread.run(lambda _: go_on.wait(10)))
    done, _ = await asyncio.wait({task}, timeout=10)
    go_on.set()
    assert done
    assert await task is None
    assert await other
    assert gang_unit(G) in world.search._parked


async def test_a_closed_search_ends():
    world = Searching()
    task = await world.begin()
    world.search.close()
    assert await task is None
