"""Sub-slices of TPU networks."""

from numpy.random import default_rng

from perf.deciding import Decider, audit, read_claim
from perf.fleets import torus
from perf.fleets.objects import claim
from perf.workload import Outcome, Progress, Size, Workload, filling

SEED = 4


def sub_slices(size: Size, progress: Progress) -> Outcome:
    """Claims of one sub-slice each, small ones more often, until hardly anything is left."""
    decider = Decider.over(torus.fleet(size["tori"]))
    shares = [1 / chips for chips in torus.SIZES]
    drawn = default_rng(SEED).choice(torus.SIZES, size["claims"], p=[s / sum(shares) for s in shares])
    for number, chips in enumerate(drawn):
        decider.decide(read_claim(claim(f"claim-{number}", [torus.sub_slice("slice", int(chips))])))
        progress(number + 1, len(drawn))
    audit(decider.store, decider.granted)
    return Outcome(decider.figures(), [filling(decider.seconds)])


WORKLOADS = [
    Workload(
        "tpu-multihost",
        "sub-slices of a torus from one network pool: a counter a host, a node selector a device",
        sub_slices,
        {"": {"tori": 60, "claims": 300}},
        tiny={"tori": 1, "claims": 16},
    ),
]
