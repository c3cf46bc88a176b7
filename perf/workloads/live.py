"""Claims through HTTP, end to end, and the floor that writes alone set."""

import asyncio
import math
from time import perf_counter

from perf import pods
from perf.backlogs import KINDS, Claims, rounds
from perf.deciding import Wrong
from perf.fleets import mig
from perf.fleets.objects import Json, claim
from perf.live import Cluster, Lag, Reach, announced_namespace, cluster, in_flight, reach
from perf.pods import watching
from perf.replica import Heard, reconciling, replica
from perf.workload import Figure, Outcome, Progress, Size, Workload, latencies
from perf.workloads.mig import drawn_profiles
from reconciler.cluster.http import connect
from reconciler.cluster.transport import Transport
from reconciler.control.ownership import MANAGED

FULL = 0.75
"""Part of the memory slices of a fleet that drawn claims surely find room in, whatever their order"""


def e2e(size: Size, progress: Progress) -> Outcome:
    """Backlogs of claims and writes without decisions in turns, then one claim and one pod at a time."""
    return asyncio.run(_e2e(size, progress))


async def _e2e(size: Size, progress: Progress) -> Outcome:
    whole = size["rounds"] * (KINDS * size["backlog"] + size["floor"]) + size["single"] + size["beside"]
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
        announced = await announced_namespace(made)
        figures = await rounds(transport, made, heard, claims, size, announced)
        progress(whole - size["single"] - size["beside"], of)
        figures += await _claims_singly(transport, made, heard, claims, size)
        progress(whole, of)
        figures += await _pods_singly(where, made, size, announced)
        progress(of, of)
    return Outcome(figures)


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

    async with reconciling(transport, heard):
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


async def _pods_singly(where: Reach, made: Cluster, size: Size, announced: str) -> list[Figure]:
    """One pod at a time, by a process of its own: here it would share a processor with what we watch."""
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


def too_much(size: Size) -> str:
    """Why a fleet has no room for all claims of a size, and how many nodes would do; empty if it has."""
    claims = size["rounds"] * KINDS * size["backlog"] + 1 + size["single"] + size["beside"] + 4 * size["pods"]
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
                "nodes": 146, "rounds": 5, "backlog": 200, "floor": 200, "single": 100, "pods": 60,
                "beside": 100,
            }
        },
        tiny={"nodes": 1, "rounds": 2, "backlog": 3, "floor": 3, "single": 2, "pods": 1, "beside": 1},
        repeats=1,
        problem=too_much,
    ),
]  # fmt: skip
