"""Claims through HTTP, end to end, and the floor that writes alone set."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import perf_counter, process_time

import numpy as np

from perf import pods
from perf.announcing import announced_namespace
from perf.deciding import Wrong
from perf.fleets import mig
from perf.fleets.objects import Json, claim
from perf.floor import write_floor
from perf.lag import Lag
from perf.live import Cluster, Reach, cluster, in_flight, reach
from perf.pace import Pace
from perf.replica import replica
from perf.sightings import watching
from perf.workload import Figure, Outcome, Progress, Size, Workload, latencies
from perf.workloads.mig import drawn_profiles
from reconciler import app
from reconciler.cluster.http import connect
from reconciler.cluster.transport import Transport
from reconciler.control.decisions.allocating import Allocated
from reconciler.control.decisions.decision import Decision, Report
from reconciler.control.ownership import MANAGED
from reconciler.settings import Settings

PATIENCE = 300.0
"""Seconds after which claims that are still not allocated fail the run"""
FULL = 0.75
"""Part of the memory slices of a fleet that drawn claims surely find room in, whatever their order"""


class Heard:
    """When each claim was told to be allocated, but those of pods; and what all got."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}
        self.done: list[tuple[float, float]] = []
        """When each was told, by the clock and by the processor time of this process"""
        self._news = asyncio.Event()

    def on_decision(self, decision: Decision) -> None:
        """Take note of a decision."""
        if isinstance(decision, Allocated):
            if decision.pod is None:
                self.at[decision.claim.name] = perf_counter()
                self.done.append((perf_counter(), process_time()))
            self._news.set()

    async def wait(self, count: int) -> None:
        """Wait until so many claims are allocated. Raises Wrong if they are not in time."""
        try:
            async with asyncio.timeout(PATIENCE):
                while len(self.at) < count:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError as exc:
            missing = count - len(self.at)
            raise Wrong(f"{missing} of {count} claims were not allocated within {PATIENCE:g} s") from exc


def e2e(size: Size, progress: Progress) -> Outcome:
    """Backlogs of claims and writes without decisions in turns, then one claim and one pod at a time."""
    return asyncio.run(_e2e(size, progress))


async def _e2e(size: Size, progress: Progress) -> Outcome:
    whole = size["rounds"] * (size["backlog"] + size["floor"]) + size["single"] + size["beside"]
    of = whole + 1 + 4 * size["pods"]
    heard = Heard()
    profiles = drawn_profiles(of)
    numbers = iter(range(of))

    def claims(count: int) -> list[Json]:
        chosen = [next(numbers) for _ in range(count)]
        return [labelled_claim(number, profiles[number]) for number in chosen]

    async with reach() as where, connect(**where) as transport, cluster(transport) as made:
        fleet = list(mig.fleet(size["nodes"]))
        await in_flight(made.create_node, [raw for raw in fleet if raw["kind"] == "Node"])
        await made.create_all(raw for raw in fleet if raw["kind"] != "Node")
        figures = await _rounds(transport, made, heard, claims, size)
        progress(whole - size["single"] - size["beside"], of)
        figures += await _claims_singly(transport, made, heard, claims, size)
        progress(whole, of)
        figures += await _pods_singly(where, made, size)
        progress(of, of)
    return Outcome(figures)


Claims = Callable[[int], list[Json]]
"""Makes so many claims that were not made before"""


async def _rounds(
    transport: Transport, made: Cluster, heard: Heard, claims: Claims, size: Size
) -> list[Figure]:
    """A process that starts with a backlog, and the writes of as many claims alone, in turns.

    The second goes first in half of the rounds. Both count from the same claim of a burst to its last, so
    what is compared was measured within seconds, on a machine that is as busy.
    """
    ours: list[Pace] = []
    floors: list[Pace] = []
    starts: list[float] = []
    lag = Lag()

    async def backlog() -> None:
        count = size["backlog"]
        await made.create_all(claims(count))
        before, began = len(heard.at), perf_counter()
        async with _reconciling(transport, heard.on_decision), lag.measured():
            await heard.wait(before + count)
        done = heard.done[before:]
        starts.append(done[0][0] - began)
        ours.append(Pace.of(done))

    async def floor() -> None:
        floors.append(await write_floor(made, claims(size["floor"])))

    for turn in range(size["rounds"]):
        for part in (floor, backlog) if turn % 2 else (backlog, floor):
            await part()
    parts = np.array([mine.rate / floor.rate for mine, floor in zip(ours, floors, strict=True)]) * 100
    low, middle, high = np.percentile(parts, [25, 50, 75]).tolist()
    return [
        Figure("claims/s", float(np.median([one.rate for one in ours])), "/s", "more"),
        Figure("write floor", float(np.median([one.rate for one in floors])), "/s", "more"),
        Figure("claims/s, part of the write floor", middle, "%", "more"),
        Figure("that part, lower quartile of the rounds", low, "%", ""),
        Figure("that part, upper quartile of the rounds", high, "%", ""),
        Figure("processor time of a claim", float(np.median([one.spent for one in ours])) * 1e3, "ms"),
        Figure(
            "processor time of its two writes alone",
            float(np.median([one.spent for one in floors])) * 1e3,
            "ms",
        ),
        Figure("start to first allocation", float(np.median(starts)), "s"),
        *lag.figures("listing and allocating"),
    ]


async def _claims_singly(
    transport: Transport, made: Cluster, heard: Heard, claims: Claims, size: Size
) -> list[Figure]:
    """One claim at a time, and the same beside a long search."""
    lag = Lag()

    async def one_by_one(count: int) -> list[float]:
        seconds = []
        for raw in claims(count):
            told, sent = len(heard.at), perf_counter()
            await made.create(raw)
            await heard.wait(told + 1)
            seconds.append(heard.at[raw["metadata"]["name"]] - sent)
        return seconds

    async with _reconciling(transport, heard.on_decision):
        await one_by_one(1)  # does not count: it waits until all is listed
        alone = await one_by_one(size["single"])
        await made.create(long_search())
        async with lag.measured():
            beside = await one_by_one(size["beside"])
    return [
        *latencies(alone, "creation to allocation"),
        *latencies(beside, "the same beside a long search"),
        *lag.figures("beside a long search"),
    ]


async def _pods_singly(where: Reach, made: Cluster, size: Size) -> list[Figure]:
    """One pod at a time, by a process of its own: here it would share a processor with what we watch."""
    announced = await announced_namespace(made)
    async with watching(made) as seen, replica(where, {"own_drivers": mig.DRIVER}) as process:
        await process.ready()
        figures = await pods.with_claims(made, seen, drawn_profiles(size["pods"], seed=1))
        figures += await pods.from_templates(made, seen, drawn_profiles(size["pods"], seed=2))
        figures += await pods.with_allocated_claims(made, seen, drawn_profiles(size["pods"], seed=3))
        figures += await pods.announced(made, seen, announced, drawn_profiles(size["pods"], seed=4))
    devices = [device for held in seen.devices.values() for device in held]
    if len(set(devices)) != len(devices):
        raise Wrong("a device was given out twice")
    return figures


@asynccontextmanager
async def _reconciling(transport: Transport, told: Report) -> AsyncIterator[None]:
    """What allocates while the block runs; `told` gets its decisions."""
    settings = Settings(own_drivers=frozenset({mig.DRIVER}))
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(app.run(settings, transport, stop=stop, on_decision=told), name="reconciler")
        try:
            yield
        finally:
            stop.set()


def too_much(size: Size) -> str:
    """Why a fleet has no room for all claims of a size, and how many nodes would do; empty if it has."""
    claims = size["rounds"] * size["backlog"] + 1 + size["single"] + size["beside"] + 4 * size["pods"]
    mean = sum(mig.SHARE[name] * profile.span for name, profile in mig.PROFILES.items()) / sum(
        mig.SHARE.values()
    )
    nodes = math.ceil(claims * mean / (mig.GPUS_A_NODE * mig.MEMORY_SLICES * FULL))
    if nodes <= size["nodes"]:
        return ""
    return (
        f"{size['nodes']} nodes have no room for {claims:,} claims, which all stay: add --set nodes={nodes}"
    )


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


WORKLOADS = [
    Workload(
        "e2e",
        "claims a second, creation to allocation, and gated pods until they are bound, through HTTP",
        e2e,
        {
            "": {
                "nodes": 60, "rounds": 5, "backlog": 200, "floor": 200, "single": 100, "pods": 60,
                "beside": 100,
            }
        },
        tiny={"nodes": 1, "rounds": 2, "backlog": 3, "floor": 3, "single": 2, "pods": 1, "beside": 1},
        repeats=1,
        problem=too_much,
    ),
]  # fmt: skip
