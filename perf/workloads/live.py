"""Claims through HTTP, end to end, and the floor that writes alone set."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from time import perf_counter, process_time

from perf import pods
from perf.deciding import Wrong
from perf.fleets import mig
from perf.fleets.objects import Json, claim
from perf.lag import Lag
from perf.live import Cluster, cluster, in_flight, server
from perf.workload import Figure, Outcome, Progress, Size, Workload, latencies
from perf.workloads.mig import drawn_profiles
from reconciler import app
from reconciler.api.objects.claims import AllocatedDevice, Allocation, DeviceAllocation, ResourceClaim
from reconciler.api.objects.plan import Plan
from reconciler.api.versions.reading import read
from reconciler.cluster.echoes import Echoes
from reconciler.cluster.transport import Transport
from reconciler.cluster.withdrawals import Withdrawals
from reconciler.cluster.writer import Writer
from reconciler.control.decisions.allocating import Allocated
from reconciler.control.decisions.decision import Decision
from reconciler.control.ownership import MANAGED
from reconciler.settings import Settings

PATIENCE = 300.0
"""Seconds after which claims that are still not allocated fail the run"""


class Heard:
    """When each claim was told to be allocated, but those of pods; and what all got."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}
        self.devices: list[str] = []
        self.spent: list[float] = []
        """Seconds of processor time of this process, when each was told"""
        self._news = asyncio.Event()

    def on_decision(self, decision: Decision) -> None:
        """Take note of a decision."""
        if isinstance(decision, Allocated):
            if not decision.claim.name.startswith(pods.CLAIM):
                self.at[decision.claim.name] = perf_counter()
                self.spent.append(process_time())
            self.devices += [str(device) for device in decision.devices]
            self._news.set()

    async def wait(self, count: int) -> None:
        """Wait until so many claims are allocated."""
        async with asyncio.timeout(PATIENCE):
            while len(self.at) < count:
                self._news.clear()
                await self._news.wait()


def e2e(size: Size, progress: Progress) -> Outcome:
    """A backlog of claims, then one claim at a time, then writes without decisions."""
    return asyncio.run(_e2e(size, progress))


async def _e2e(size: Size, progress: Progress) -> Outcome:
    backlog, single, beside, floor = size["backlog"], size["single"], size["beside"], size["floor"]
    of = backlog + single + beside + floor
    told = of + size["pods"]
    heard = Heard()
    lags = Lag(), Lag()
    async with server() as transport, cluster(transport) as made:
        fleet = list(mig.fleet(size["nodes"]))
        await in_flight(made.create_node, [raw for raw in fleet if raw["kind"] == "Node"])
        await made.create_all(raw for raw in fleet if raw["kind"] != "Node")
        profiles = drawn_profiles(of)
        await made.create_all(labelled_claim(n, profile) for n, profile in enumerate(profiles[:backlog]))
        began = perf_counter()
        taken: list[float] = []
        taken_beside: list[float] = []

        async def one_by_one(numbers: Sequence[int], seconds: list[float]) -> None:
            for number in numbers:
                sent = perf_counter()
                await made.create(labelled_claim(number, profiles[number]))
                await heard.wait(number + 1)
                seconds.append(heard.at[f"claim-{number}"] - sent)
                progress(number + 1, told)

        async with _reconciling(transport, heard):
            async with lags[0].measured():
                await heard.wait(backlog)
                times, spent = sorted(heard.at.values()), heard.spent[backlog - 1] - heard.spent[0]
                await one_by_one(range(backlog, backlog + single), taken)
            of_pods = await pods.one_by_one(made, drawn_profiles(size["pods"], seed=backlog))
            await made.create(long_search())
            async with lags[1].measured():
                await one_by_one(range(backlog + single, of - floor), taken_beside)
        writes, spent_writing = await _write_floor(made, range(of - floor, of))
        progress(told, told)
    if len(set(heard.devices)) != len(heard.devices):
        raise Wrong("a device was given out twice")
    rate = (backlog - 1) / (times[-1] - times[0])
    return Outcome([
        Figure("claims/s", rate, "/s", "more"),
        Figure("claims/s, part of the write floor", rate / (floor / writes) * 100, "%", "more"),
        Figure("start to first allocation", times[0] - began, "s"),
        *latencies(taken, "creation to allocation"),
        *of_pods,
        *lags[0].figures("listing and allocating"),
        *latencies(taken_beside, "the same beside a long search"),
        *lags[1].figures("beside a long search"),
        Figure("write floor", floor / writes, "/s", "more"),
        Figure("processor time of a claim", spent / (backlog - 1) * 1e3, "ms"),
        Figure("processor time of its two writes alone", spent_writing / floor * 1e3, "ms"),
    ])  # fmt: skip


@asynccontextmanager
async def _reconciling(transport: Transport, heard: Heard) -> AsyncIterator[None]:
    settings = Settings(own_drivers=frozenset({mig.DRIVER}))
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(
            app.run(settings, transport, stop=stop, on_decision=heard.on_decision), name="reconciler"
        )
        try:
            yield
        finally:
            stop.set()


def labelled_claim(number: int, profile: str) -> Json:
    """A claim of one partition that says whose it is."""
    raw = claim(f"claim-{number}", [mig.partition("partition", profile)])
    del raw["metadata"]["uid"]
    raw["metadata"]["labels"] = {MANAGED: "true"}
    return raw


def long_search() -> Json:
    """A claim that no empty node can meet, which only a search can tell, and it gives up after long."""
    raw = claim("long", [mig.partition("four", "4g.20gb", 8), mig.partition("two", "2g.10gb", 9)])
    del raw["metadata"]["uid"]
    raw["metadata"]["labels"] = {MANAGED: "true"}
    return raw


async def _write_floor(made: Cluster, numbers: Sequence[int]) -> tuple[float, float]:
    """Seconds that the two writes of each claim take, with nothing to decide; and those of our processor."""
    raws = await made.create_all(labelled_claim(number, "1g.5gb") for number in numbers)
    echoes = Echoes(holds=lambda *_: False, add=lambda _: None)
    writer = Writer(
        made.client,
        made.served,
        echoes=echoes,
        withdrawals=Withdrawals(),
        now=lambda: datetime.now(UTC),
    )
    kind = made.served["ResourceClaim"]
    found = [read({"kind": kind.kind, "apiVersion": kind.api_version, **raw}) for raw in raws]
    claims = [one for one in found if isinstance(one, ResourceClaim)]

    async def write(one: ResourceClaim) -> None:
        device = AllocatedDevice(request="partition", driver=mig.DRIVER, pool="node", device=one.key.name)
        allocation = Allocation(devices=DeviceAllocation(results=(device,)))
        plan = Plan(one.key, one.metadata.uid, one.metadata.resource_version, "node", allocation)
        await writer.write(plan, one)

    began, spent = perf_counter(), process_time()
    await in_flight(write, claims)
    return perf_counter() - began, process_time() - spent


WORKLOADS = [
    Workload(
        "e2e",
        "claims a second, creation to allocation, and gated pods until they are bound, through HTTP",
        e2e,
        {"": {"nodes": 50, "backlog": 800, "single": 200, "pods": 100, "beside": 200, "floor": 500}},
        tiny={"nodes": 1, "backlog": 4, "single": 2, "pods": 1, "beside": 1, "floor": 2},
    ),
]
