"""The demand is learnt from claims that are new, and kept across restarts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from reconciler.allocation.policies.demand import Demand, LearntDemand, Shape
from reconciler.allocation.policies.selection import Policies, parse_policies
from reconciler.api.objects.changes import Changed, Removed, Replaced
from reconciler.api.objects.claims import ResourceClaimSpec
from reconciler.api.objects.core import WORKLOAD, Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.client import Client
from reconciler.cluster.kinds import config_map
from reconciler.control.demand import EVERY, DemandConfigMap, DemandLearner, Kept, PoliciesInUse
from reconciler.control.intake import Intake
from reconciler.control.units import WorkloadRoster
from reconciler.embedded import ApiServer
from tests.tools.running_reconciler import reached
from tests.tools.scenario import asking
from tests.tools.small_fleet import claim, claim_spec, pod
from tests.tools.unit_pictures import as_pod, intake, key, typed

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
            learnt=LearntDemand(WEEK),
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


# -- The ConfigMap with the learnt demand, on the embedded server.


KEY = ObjectKey("default", "demand")
DEMAND = Demand((Shape(ResourceClaimSpec.model_validate(claim_spec()), 500, 3000),))


@asynccontextmanager
async def client(**data: str) -> AsyncIterator[Client]:
    """A client of a server that has the ConfigMap with this data."""
    api = ApiServer()
    metadata = {"name": KEY.name, "namespace": KEY.namespace}
    api.load([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}])
    async with reached(api) as transport:
        yield Client(transport)


def keeper(over: Client, key: ObjectKey = KEY, *, leads: bool = True) -> DemandConfigMap:
    return DemandConfigMap(over, key, writes=lambda: leads)


async def data(over: Client) -> Any:
    return (await over.get(config_map(KEY), KEY)).get("data", {})


async def test_what_is_written_is_read_after_a_restart():
    async with client(other="x") as over:
        assert await keeper(over).read() == Kept()
        assert await keeper(over).write(DEMAND, NOON)
        assert await keeper(over).read() == Kept(DEMAND, NOON)
        assert (await data(over))["other"] == "x"


async def test_only_the_leader_writes():
    async with client() as over:
        assert not await keeper(over, leads=False).write(DEMAND, NOON)
        assert await data(over) == {}


async def test_a_change_by_another_client_is_not_overwritten_unseen():
    async with client() as over:
        mine = keeper(over)
        assert await mine.write(DEMAND, NOON)
        await over.patch(config_map(KEY), KEY, {"data": {"demand": "{}"}})
        assert not await mine.write(DEMAND, NOON)
        assert (await data(over))["demand"] == "{}"
        assert await mine.write(DEMAND, NOON)


async def test_a_config_map_that_is_missing_is_reported_once():
    async with client() as over:
        mine = keeper(over, ObjectKey("default", "gone"))
        with capture_logs() as logs:
            assert await mine.read() == Kept()
            assert not await mine.write(DEMAND, NOON)
            assert not await mine.write(DEMAND, NOON)
    (line,) = logs
    assert line["event"] == "learnt demand not kept"
    assert line["remedy"] == "create it, empty"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"demand": "{", "at": "2026-01-01T12:00:00Z"}, "must be JSON with a list of shapes"),
        ({"demand": DEMAND.to_json(), "at": "noon"}, "must be a time in RFC 3339 format"),
        ({"demand": DEMAND.to_json()}, "must be a time in RFC 3339 format"),
    ],
)
async def test_content_that_cannot_be_read_is_refused_and_replaced(found: dict[str, str], said: str):
    async with client(**found) as over:
        with capture_logs() as logs:
            assert await keeper(over).read() == Kept()
        (line,) = logs
        assert line["event"] == "learnt demand refused"
        assert said in line["error"]
        assert await keeper(over).write(DEMAND, NOON)
        assert await keeper(over).read() == Kept(DEMAND, NOON)


# -- Which pods belong to which Workload, whatever happens to pods.


KEYS = [ObjectKey(namespace, name) for namespace in ("a", "b") for name in ("p", "q")]
WORKLOADS = [ObjectKey(namespace, name) for namespace in ("a", "b") for name in ("v", "w")]


def of(key: ObjectKey, workload: str | None) -> Pod:
    """A pod; None is one without the annotation."""
    made = pod(key.name, gates=())
    annotations = {} if workload is None else {WORKLOAD: workload}
    made["metadata"] |= {"namespace": key.namespace, "annotations": annotations}
    return as_pod(made)


@given(changes=st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(["v", "w", "", None, "gone"]))))
def test_the_pods_of_a_workload_are_those_that_name_it_now(changes: list[tuple[ObjectKey, str | None]]):
    roster, pods = WorkloadRoster(), dict[ObjectKey, Pod]()
    for name, workload in changes:
        pods.pop(name, None)
        if workload != "gone":
            pods[name] = of(name, workload)
        roster.note(name, pods.get(name))
        for asked in WORKLOADS:
            assert roster.users(asked) == {
                name
                for name, one in pods.items()
                if (name.namespace, one.metadata.annotations.get(WORKLOAD)) == asked
            }
