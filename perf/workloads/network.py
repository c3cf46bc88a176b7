"""Sub-slices of TPU networks, and shares of network cards."""

from collections import Counter

from numpy.random import default_rng

from perf.deciding import Decider, Wrong, audit, read_claim
from perf.fleets import nics, torus
from perf.fleets.objects import Json, claim
from perf.workload import Outcome, Progress, Size, Workload, filling
from reconciler.api.objects.quantity import Quantity

SEED = 4
REQUESTED = ("500M", "1G", "2500M", "10G", "25G")
"""Bandwidth; what is no whole gigabit is rounded up by the policy"""


def sub_slices(size: Size, progress: Progress) -> Outcome:
    """Claims of one sub-slice each, small ones more often, until hardly anything is left."""
    decider = Decider.over(torus.fleet(size["tori"]))
    shares = [1 / chips for chips in torus.SIZES]
    drawn = default_rng(SEED).choice(torus.SIZES, size["claims"], p=[s / sum(shares) for s in shares])
    _decide(decider, [torus.sub_slice("slice", int(chips)) for chips in drawn], progress)
    audit(decider.store, decider.granted)
    return _outcome(decider)


def consumable(size: Size, progress: Progress) -> Outcome:
    """Claims of a share of one card each."""
    decider = Decider.over(nics.fleet(size["nodes"]))
    drawn = default_rng(SEED).choice(REQUESTED, size["claims"])
    _decide(decider, [nics.share("share", str(bandwidth)) for bandwidth in drawn], progress)
    _audit_shares(decider)
    return _outcome(decider)


def _decide(decider: Decider, requests: list[Json], progress: Progress) -> None:
    for number, request in enumerate(requests):
        decider.decide(read_claim(claim(f"claim-{number}", [request])))
        progress(number + 1, len(requests))


def _outcome(decider: Decider) -> Outcome:
    return Outcome(decider.figures(), [filling(decider.seconds)])


def _audit_shares(decider: Decider) -> None:
    """Raise Wrong if the shares of a card are more than it has, or one took less than a gigabit."""
    taken: Counter[str] = Counter()
    for outcome in decider.granted:
        for plan in outcome.plans:
            for one in plan.allocation.devices.results:
                bandwidth = one.consumed_capacity["bandwidth"]
                if bandwidth < Quantity.parse("1G"):
                    raise Wrong(f"{plan.claim} got {bandwidth}, below what the policy allows")
                taken[str(one.id)] += bandwidth.nanos
    if taken and max(taken.values()) > Quantity.parse(f"{nics.GIGABITS}G").nanos:
        raise Wrong("more bandwidth is given out than a card has")


WORKLOADS = [
    Workload(
        "tpu-multihost",
        "sub-slices of a torus from one network pool: a counter a host, a node selector a device",
        sub_slices,
        {"": {"tori": 60, "claims": 300}},
        tiny={"tori": 1, "claims": 16},
    ),
    Workload(
        "consumable",
        "shares of network cards with request policies",
        consumable,
        {"": {"nodes": 1250, "claims": 2000}},
        tiny={"nodes": 2, "claims": 20},
    ),
]
