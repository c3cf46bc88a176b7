"""Partitionable GPUs: filling a fleet with partitions, four partitions of one GPU, and what cannot be."""

from collections.abc import Iterable, Sequence

from numpy.random import default_rng

from perf.deciding import Decider, audit, read_claim
from perf.fleets import mig
from perf.fleets.objects import Json, claim
from perf.workload import (
    Figure,
    OracleTask,
    Outcome,
    Progress,
    Size,
    Workload,
    filling,
    latencies,
    one_by_one,
    rate,
)
from reconciler.api.objects.claims import ResourceClaim

SEED = 4815
ASKED = 400
"""Claims of `fill` that another allocator is asked"""


def drawn_profiles(count: int, seed: int = SEED) -> list[str]:
    """Profiles as a fleet's users ask for them."""
    total = sum(mig.SHARE.values())
    return [
        str(profile)
        for profile in default_rng(seed).choice(
            list(mig.SHARE), count, p=[share / total for share in mig.SHARE.values()]
        )
    ]


def partition_claim_json(number: int, profile: str) -> Json:
    """A claim of one partition, as JSON."""
    return claim(f"claim-{number}", [mig.partition("partition", profile)])


def partition_claim(number: int, profile: str) -> ResourceClaim:
    """A claim of one partition."""
    return read_claim(partition_claim_json(number, profile))


def fill(size: Size, progress: Progress) -> Outcome:
    """Claims of one partition each, one after the other, until nothing is left for the last of them."""
    decider = Decider.over(mig.fleet(size["nodes"]))
    profiles = drawn_profiles(size["claims"])
    for number, profile in enumerate(profiles):
        decider.decide(partition_claim(number, profile))
        progress(number + 1, len(profiles))
    audit(decider.store, decider.granted)
    return Outcome([*first_rates(decider.seconds), *decider.figures()], [filling(decider.seconds)])


def first_rates(seconds: Sequence[float]) -> list[Figure]:
    """The rates over the first claims, which find the fleet empty."""
    counts = [count for count in (200, 400, 1000) if count <= len(seconds)]
    return [rate(f"claims/s, first {count}", seconds[:count]) for count in counts]


def fill_problem(size: Size) -> tuple[Iterable[Json], list[Json]]:
    """The fleet and the first claims of `fill`, of which another allocator takes a minute already."""
    profiles = drawn_profiles(size["claims"])[:ASKED]
    claims = [partition_claim_json(number, profile) for number, profile in enumerate(profiles)]
    return mig.fleet(size["nodes"]), claims


def multi(size: Size, progress: Progress) -> Outcome:
    """The four partitions of KEP-4815 under one parent GPU, a GPU a claim."""
    decider = Decider.over(mig.fleet(size["nodes"]))
    claims = four_partitions(size)
    for number, raw in enumerate(claims):
        decider.grant(read_claim(raw))
        progress(number + 1, len(claims))
    audit(decider.store, decider.granted)
    return Outcome(decider.figures(), [filling(decider.seconds)])


def four_partitions(size: Size) -> list[Json]:
    """The claims of `multi`."""
    count = min(size["claims"], size["nodes"] * mig.GPUS_A_NODE)
    return [mig.four_partitions(f"claim-{number}") for number in range(count)]


def infeasible(size: Size, progress: Progress) -> Outcome:
    """Four 2g.10gb of one GPU on an empty fleet; a GPU has room for three."""
    decider = Decider.over(mig.fleet(size["nodes"]))
    claims = too_many(size)
    for number, raw in enumerate(claims):
        decider.refuse(read_claim(raw))
        progress(number + 1, len(claims))
    steps = max(outcome.steps for outcome in decider.outcomes)
    return Outcome([*refusals(decider.seconds), Figure("steps a claim", steps, "devices")])


def too_many(size: Size) -> list[Json]:
    """The claims of `infeasible`."""
    request = mig.partition("partitions", "2g.10gb", count=4)
    return [claim(f"claim-{number}", [request], match=mig.PARENT) for number in range(size["claims"])]


def refusals(seconds: Sequence[float]) -> list[Figure]:
    """The first refusal, which may prepare those after it, and the others."""
    first, *others = seconds
    mean = sum(others) / len(others)
    return [Figure("first claim", first, "s"), Figure("a claim", mean, "s"), *latencies(others)]


WORKLOADS = [
    Workload(
        "mig-fill",
        "one partition a claim, profiles as users draw them, until the fleet is full and beyond",
        fill,
        {"": {"nodes": 50, "claims": 2000}},
        tiny={"nodes": 1, "claims": 40},
        oracle=OracleTask(fill_problem, first_rates),
    ),
    Workload(
        "mig-multi",
        "four partitions a claim, tied to one parent GPU",
        multi,
        {"": {"nodes": 50, "claims": 400}},
        tiny={"nodes": 1, "claims": 4},
        oracle=OracleTask(lambda size: (mig.fleet(size["nodes"]), four_partitions(size)), one_by_one),
    ),
    Workload(
        "infeasible",
        "4 x 2g.10gb on one GPU, which cannot be, on an empty fleet",
        infeasible,
        {"": {"nodes": 50, "claims": 20}},
        tiny={"nodes": 1, "claims": 2},
        oracle=OracleTask(lambda size: (mig.fleet(size["nodes"]), too_many(size)), refusals),
    ),
]
