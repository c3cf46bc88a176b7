"""One pass over a whole fleet: which devices fit into what is left of their counters."""

from collections.abc import Callable
from time import perf_counter

import numpy as np
from numpy.random import default_rng

from kernels.fit import fits
from kernels.types import Mask
from perf.deciding import Decider, Wrong
from perf.fleets import mig
from perf.workload import Figure, Outcome, Progress, Size, Workload
from perf.workloads.mig import drawn_profiles, partition_claim

SEED = 10_400


def kernel(size: Size, progress: Progress) -> Outcome:
    """The kernel, the plain NumPy that it replaces, and a copy of the bytes that the latter compares."""
    decider = Decider.over(mig.fleet(size["nodes"]))
    for number, profile in enumerate(drawn_profiles(size["nodes"] * mig.GPUS_A_NODE)):
        decider.decide(partition_claim(number, profile))
    seen = decider.store.snapshot()
    fleet = seen.fleet
    # Counters of all sets, in disorder: a fleet that has been at work for a while.
    left = np.ascontiguousarray(default_rng(SEED).permutation(seen.occupancy.left, axis=0))
    table, sets, draws = fleet.table, fleet.sets, fleet.draws

    def plain() -> Mask:
        wanted, there = table[draws[:, 0]], left[sets[:, 0]]
        found: Mask = ((wanted <= there) | (wanted == 0) | (sets < 0)).all(axis=1)
        return found

    if (fits(left, table, sets, draws) != plain()).any():
        raise Wrong("the kernel and the plain form differ")
    gathered = table[draws[:, 0]]
    target = np.empty_like(gathered)
    ways: dict[str, Callable[[], object]] = {
        "kernel": lambda: fits(left, table, sets, draws),
        "plain NumPy, row by row": plain,
        "copy of what is compared": lambda: np.copyto(target, gathered),
    }
    figures = [
        Figure("devices", fleet.size, "", ""),
        Figure("counters a set", table.shape[1], "", ""),
    ]
    for number, (name, way) in enumerate(ways.items()):
        seconds = []
        for _ in range(size["passes"]):
            began = perf_counter()
            way()
            seconds.append(perf_counter() - began)
        figures += [
            Figure(f"{name}, p50", float(np.median(seconds)) * 1e3, "ms"),
            Figure(f"{name}, best", min(seconds) * 1e3, "ms"),
        ]
        progress(number + 1, len(ways))
    return Outcome(figures)


WORKLOADS = [
    Workload(
        "kernel",
        "one pass over all devices: which of them fit into the counters that are left",
        kernel,
        {"": {"nodes": 50, "passes": 500}},
        tiny={"nodes": 1, "passes": 2},
    ),
]
