"""The demand is learnt from claims that are new, and kept across restarts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from reconciler.allocation.policies.demand import Demand
from reconciler.allocation.policies.selection import Policies, parse_policies
from reconciler.api.objects.changes import Changed, Removed, Replaced
from reconciler.control.demand import EVERY, DemandConfigMap, DemandLearner, Kept, PoliciesInUse
from reconciler.control.intake import Intake
from tests.tools.scenario import asking
from tests.tools.small_fleet import claim
from tests.tools.unit_pictures import intake, key, typed

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WEEK = timedelta(days=7).total_seconds()


class Memory(DemandConfigMap):
    """Keeps the demand here; `leads` says whether it may be written."""

    def __init__(self, *, leads: bool = True) -> None:
        self.kept, self.leads, self.written = Kept(), leads, 0
        self.comparison = ""

    async def read(self) -> Kept:
        return self.kept

    async def write(self, demand: Demand, at: datetime, comparison: str = "") -> bool:
        self.comparison = comparison
        if self.leads:
            self.kept, self.written = Kept(demand, at), self.written + 1
        return self.leads


class Process:
    """A learner in virtual time."""

    def __init__(self, memory: Memory | None = None) -> None:
        self.intake: Intake = intake()
        self.intake.listed.set()
        self.clock = asyncio.get_running_loop().time
        self.compared = ""
        self.in_use = PoliciesInUse(Policies(parse_policies(["least-loss"])))
        self.learner = DemandLearner(
            self.intake,
            self.intake.take,
            self.in_use,
            memory,
            half_life=WEEK,
            now=self.now,
            comparison=lambda: self.compared,
        )

    def now(self) -> datetime:
        return NOON + timedelta(seconds=self.clock())

    def see(self, *raws: dict[str, Any]) -> None:
        for raw in raws:
            self.learner.take(Changed(raw["kind"], typed(raw)))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Learn beside the block."""
        task = asyncio.create_task(self.learner.run())
        await asyncio.sleep(1.0)
        yield
        task.cancel()
        await asyncio.wait([task])

    @property
    def weights(self) -> dict[tuple[int, int], int]:
        """(devices, CPU) -> weight"""
        return {
            (shape.spec.devices.requests[0].exactly.count, shape.cores): shape.weight  # type: ignore[union-attr]
            for shape in self.in_use().demand.shapes
        }


def created(raw: dict[str, Any], at: datetime) -> dict[str, Any]:
    return {**raw, "metadata": {**raw["metadata"], "creationTimestamp": at.isoformat()}}


async def test_claims_are_counted_once_with_the_cpu_of_their_pod():
    process = Process()
    process.see(claim("a"), claim("b", 2), claim("c", 2), asking("p", "a", cpu="2"))
    process.see(claim("a"), claim("b", 2))  # their status changed
    process.learner.take(Replaced("ResourceClaim", (typed(claim("c", 2)),), ()))
    async with process.running():
        assert process.weights == {(1, 2000): 1000, (2, 0): 2000}
        assert process.learner.counted == 3


async def test_a_claim_of_the_same_name_counts_again():
    process = Process()
    process.see(claim("a"))
    process.learner.take(Removed("ResourceClaim", key("a")))
    again = claim("a")
    again["metadata"]["uid"] = "another"
    process.see(again)
    async with process.running():
        assert process.weights == {(1, 0): 2000}


async def test_every_change_is_passed_on():
    process = Process()
    process.see(claim("a"))
    assert key("a") in process.intake.store.claims


async def test_a_restart_continues_with_what_was_kept():
    memory = Memory()
    process = Process(memory)
    process.see(created(claim("a"), NOON - timedelta(minutes=1)))
    async with process.running():
        assert memory.written == 1
    after = Process(memory)
    after.see(created(claim("a"), NOON - timedelta(minutes=1)), created(claim("b"), after.now()))
    async with after.running():
        (weight,) = after.weights.values()
        assert abs(weight - 2000) <= 2


async def test_nothing_is_written_before_the_process_leads_or_without_news():
    memory = Memory(leads=False)
    process = Process(memory)
    process.see(claim("a"))
    async with process.running():
        await asyncio.sleep(2 * EVERY)
        assert memory.written == 0
        memory.leads = True
        await asyncio.sleep(3 * EVERY)
        assert memory.written == 1


async def test_one_write_a_minute_at_most():
    memory = Memory()
    process = Process(memory)
    process.see(claim("a"))
    async with process.running():
        for number in range(30):
            process.see(claim(f"c{number}"))
            await asyncio.sleep(EVERY / 10)
        assert memory.written == 4


async def test_a_new_comparison_is_written_with_the_demand():
    memory = Memory()
    process = Process(memory)
    process.see(claim("a"))
    async with process.running():
        process.compared = "compared"
        await asyncio.sleep(2 * EVERY)
    assert (memory.written, memory.comparison) == (2, "compared")


async def test_small_changes_of_shares_do_not_change_the_demand_in_use():
    process = Process()
    process.see(*(claim(f"a{number}", 1 + number % 2) for number in range(100)))
    async with process.running():
        before = process.in_use().demand
        process.see(claim("more"))
        await asyncio.sleep(EVERY)
        assert process.in_use().demand is before
        process.see(*(claim(f"b{number}") for number in range(50)))
        await asyncio.sleep(EVERY)
        assert process.in_use().demand is not before
