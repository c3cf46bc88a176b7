"""A full fleet at work: one claim goes, another comes."""

from collections import deque
from time import perf_counter

from numpy.random import default_rng

from perf.deciding import Decider, audit
from perf.fleets import mig
from perf.workload import Figure, Outcome, Progress, Size, Workload, latencies, rate
from perf.workloads.mig import drawn_profiles, partition_claim
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted

SEED = 85
FULL = 0.85
"""Share of all memory slices that is in use"""


def churn(size: Size, progress: Progress) -> Outcome:
    """Fill to 85 %, then release a claim and decide another, again and again."""
    decider = Decider.over(mig.fleet(size["nodes"]))
    profiles = deque(drawn_profiles(size["nodes"] * mig.GPUS_A_NODE * mig.MEMORY_SLICES + size["turns"]))
    wanted = FULL * size["nodes"] * mig.GPUS_A_NODE * mig.MEMORY_SLICES
    held: list[tuple[ResourceClaim, Granted]] = []
    used, number = 0, 0
    while used < wanted and profiles:
        profile = profiles.popleft()
        if _settle(decider, partition_claim(number, profile), held):
            used += mig.PROFILES[profile].span
        number += 1
    decider.seconds.clear()
    decider.outcomes.clear()
    decider.processor = 0.0
    releases: list[float] = []
    leaving = default_rng(SEED)
    for turn in range(size["turns"]):
        claim, _ = held.pop(int(leaving.integers(len(held))))
        began = perf_counter()
        decider.remove(claim)
        releases.append(perf_counter() - began)
        _settle(decider, partition_claim(number + turn, profiles.popleft()), held)
        progress(turn + 1, size["turns"])
    audit(decider.store, [granted for _, granted in held])
    together = [release + decision for release, decision in zip(releases, decider.seconds, strict=True)]
    return Outcome(
        figures=[
            rate("turns/s", together),
            Figure("claims/s of processor time", len(decider.seconds) / decider.processor, "/s", "more"),
            *latencies(decider.seconds),
            *latencies(releases, "release"),
            Figure("refused", decider.refused, "claims", ""),
            Figure("held", len(held), "claims", ""),
        ]
    )


def _settle(decider: Decider, claim: ResourceClaim, held: list[tuple[ResourceClaim, Granted]]) -> bool:
    """Decide a claim and let the watch confirm it, as a controller sees it. Confirming is not timed."""
    outcome = decider.decide(claim)
    if isinstance(outcome, Granted):
        decider.confirm(claim, outcome.plans[0])
        held.append((claim, outcome))
        return True
    return False


WORKLOADS = [
    Workload(
        "churn",
        "partitions at 85 % full: release one, allocate one",
        churn,
        {"": {"nodes": 50, "turns": 1000}},
        tiny={"nodes": 1, "turns": 10},
    ),
]
