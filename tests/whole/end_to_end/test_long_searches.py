"""A search that takes long holds up nobody, and its answer counts only if nothing has overtaken it."""

import asyncio
from threading import Event

import pytest

from reconciler.allocation.dra.budget import Budget, StepLimit, Unfinished
from reconciler.api.objects.plan import Granted
from reconciler.control.decider import Decider, Refusal
from reconciler.control.decisions.allocating import Allocated
from reconciler.control.handler import Decide
from reconciler.state.devices.snapshot import Snapshot
from tests.tools.patience import PATIENCE
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.small_fleet import claim, device_class, devices, node

pytestmark = pytest.mark.loopback


class Long:
    """Makes the search for one claim long: it ends when the test says so, or when nobody wants it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.begun, self.go, self.broken_off = Event(), Event(), Event()
        self.found: list[Granted | Refusal] = []
        find = Decider.find

        def hard(decider: Decider, asked: Decide, world: Snapshot, budget: Budget) -> Granted | Refusal:
            if asked.claims[0].key.name != name:
                return find(decider, asked, world, budget)
            if isinstance(budget, StepLimit):
                raise Unfinished("long")
            answer = find(decider, asked, world, budget)
            self.begun.set()
            try:
                while not self.go.wait(0.001):
                    budget.spend()
            except Unfinished:
                self.broken_off.set()
                raise
            self.found.append(answer)
            return answer

        monkeypatch.setattr(Decider, "find", hard)

    async def under_way(self) -> None:
        assert await asyncio.to_thread(self.begun.wait, PATIENCE)


def cluster(*names: str) -> Cluster:
    return Cluster([node("n"), device_class(), devices("n", "d0", "d1"), *(claim(name) for name in names)])


async def test_others_are_answered_meanwhile_and_what_they_took_is_not_given_again(monkeypatch):
    world, search = cluster("hard"), Long(monkeypatch, "hard")
    async with reconciling(world) as running:
        await search.under_way()
        world.load(claim("easy"))
        await running.heard(Allocated)
        assert world.devices("easy") == ["n/d0"]
        search.go.set()
        await running.heard(Allocated, 2)
    assert world.devices("hard") == ["n/d1"]
    assert len(search.found) == 2, "the first answer was for the device that is taken now"


async def test_an_answer_that_nothing_has_overtaken_is_used(monkeypatch):
    world, search = cluster("hard"), Long(monkeypatch, "hard")
    async with reconciling(world) as running:
        await search.under_way()
        search.go.set()
        await running.heard(Allocated)
    assert world.devices("hard") == ["n/d0"]
    assert len(search.found) == 1


async def test_a_claim_that_goes_takes_its_search_along(monkeypatch):
    world, search = cluster("hard"), Long(monkeypatch, "hard")
    async with reconciling(world) as running:
        await search.under_way()
        world.delete("hard")
        world.load(claim("easy"), claim("other"))
        await running.heard(Allocated, 2)
        assert await asyncio.to_thread(search.broken_off.wait, PATIENCE)
    assert search.found == []


async def test_the_end_does_not_wait_for_a_search(monkeypatch):
    world, search = cluster("hard"), Long(monkeypatch, "hard")
    async with reconciling(world, drain_seconds=10 * PATIENCE) as running:
        await search.under_way()
        running.stop.set()
        async with asyncio.timeout(PATIENCE):
            await running.done.wait()
    assert running.decisions == []
    assert search.found == []
