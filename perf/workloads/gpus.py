"""Whole GPUs on a large fleet: counts, and one NUMA node where that matters."""

from collections.abc import Iterable

from numpy.random import default_rng

from perf.deciding import Decider, audit, read_claim
from perf.fleets import gpus
from perf.fleets.objects import Json, claim, exactly
from perf.workload import OracleTask, Outcome, Progress, Size, Workload, filling, one_by_one
from reconciler.api.objects.claims import ResourceClaim

SEED = 1250
TIED = (2, 4)
"""Counts of GPUs that must share a NUMA node"""


def gpu_claim(number: int, count: int) -> ResourceClaim:
    """A claim of whole GPUs."""
    return read_claim(gpu_claim_json(number, count))


def gpu_claim_json(number: int, count: int) -> Json:
    """The same as JSON."""
    request = exactly("gpus", gpus.CLASS, count=count)
    return claim(f"claim-{number}", [request], match=gpus.NUMA if count in TIED else "")


def whole_problem(size: Size) -> tuple[Iterable[Json], list[Json]]:
    """The fleet and the claims of `whole`."""
    counts = drawn_counts(size["claims"])
    return gpus.fleet(size["nodes"]), [gpu_claim_json(number, count) for number, count in enumerate(counts)]


def drawn_counts(claims: int) -> list[int]:
    """From 1 to 8 GPUs, small counts more often."""
    shares = {1: 0.35, 2: 0.25, 3: 0.05, 4: 0.20, 5: 0.02, 6: 0.02, 7: 0.01, 8: 0.10}
    return [int(count) for count in default_rng(SEED).choice(list(shares), claims, p=list(shares.values()))]


def whole(size: Size, progress: Progress) -> Outcome:
    """Claims of 1 to 8 GPUs, one after the other."""
    decider = Decider.over(gpus.fleet(size["nodes"]))
    counts = drawn_counts(size["claims"])
    for number, count in enumerate(counts):
        decider.decide(gpu_claim(number, count))
        progress(number + 1, len(counts))
    audit(decider.store, decider.granted)
    return Outcome(decider.figures(), [filling(decider.seconds)])


WORKLOADS = [
    Workload(
        "whole-gpu",
        "1 to 8 whole GPUs a claim, 2 and 4 of one NUMA node; no counters",
        whole,
        {"": {"nodes": 1250, "claims": 2000}},
        tiny={"nodes": 4, "claims": 6},
        oracle=OracleTask(whole_problem, one_by_one),
    ),
]
