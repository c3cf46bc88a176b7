"""Hard questions, and how long a solver takes for them."""

import gc
from collections.abc import Sequence
from itertools import count
from statistics import median
from time import thread_time
from typing import NamedTuple

import numpy as np

from perf.deciding import Wrong, read_claim
from perf.fleets.hard import CLASS, DRIVER, FAMILIES, Question, Scale, questions
from perf.fleets.objects import claim
from perf.hard_solver import solve
from perf.workload import Figure, Outcome, Progress, Size, Workload
from reconciler.aio.tasks import COLLECTIONS
from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.dra.selector_masks import warm_up
from reconciler.api.objects.plan import Granted, Reason, Unsatisfied
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.state.trial import store_of

ROUNDS = 3
HELD = (0.0, 0.5)
"""Shares of the GPUs on which others hold partitions, in turn"""

OTHER = claim(
    "other", [{"name": f"r{at}", "exactly": {"deviceClassName": CLASS, "count": 3}} for at in (0, 1)]
)
OTHER["spec"]["devices"]["constraints"] = [{"distinctAttribute": f"{DRIVER}/profile"}]
"""Six devices of five profiles: a proof says that there are none. No question compares profiles"""


class Answered(NamedTuple):
    """One question."""

    granted: bool | None
    """None: given up"""
    ours: float
    """Seconds"""
    granted_by_solver: bool | None
    theirs: float


def ask(asked: Question, rounds: int = ROUNDS) -> tuple[bool | None, float]:
    """Whether there are devices, None if the search gave up; and the median seconds of some decisions.

    Each is on a new snapshot, so that nothing is known of its claims. It was asked for another claim before:
    what belongs to a snapshot, such as its counter sets by group, is not counted. The decisions follow one
    another as those of the solver do, with nothing between them that empties the processor's caches.
    """
    objects = [read(one) for one in (*asked.fleet, *asked.held)]
    snapshots = [store_of(objects, Semantics()).snapshot() for _ in range(rounds)]
    copies = [[read_claim(one) for one in asked.claims] for _ in snapshots]
    for snapshot in snapshots:
        allocate([read_claim(OTHER)], snapshot)
    seconds = []
    for snapshot, claims in zip(snapshots, copies, strict=True):
        began = thread_time()
        outcome = allocate(claims, snapshot)
        seconds.append(thread_time() - began)
    gave_up = isinstance(outcome, Unsatisfied) and outcome.reason is Reason.GAVE_UP
    return None if gave_up else isinstance(outcome, Granted), median(seconds)


def hard(size: Size, progress: Progress) -> Outcome:
    """So many questions of each family, half of them with partitions held. Raises Wrong."""
    warm_up()
    gc.freeze()
    gc.set_threshold(*COLLECTIONS)  # as in the reconciler
    scale = Scale(nodes=tuple(range(1, size["nodes"] + 1)))
    figures: list[Figure] = []
    done = count(1)
    for family in FAMILIES:
        answered: list[Answered] = []
        for at, share in enumerate(HELD):
            number = size["questions"] // 2 + (size["questions"] % 2) * at
            for asked in questions(size["seed"] + at, number, scale, share, [family]):
                answered.append(_both(asked, solver=bool(size["solver"])))
                progress(next(done), len(FAMILIES) * size["questions"])
        figures += _figures(family, answered)
    return Outcome(figures)


def _both(asked: Question, *, solver: bool) -> Answered:
    granted, ours = ask(asked)
    theirs = [solve(asked) for _ in range(ROUNDS)] if solver else [(None, 0.0)]
    expected = theirs[0][0]
    if None not in (granted, expected) and granted != expected:
        raise Wrong(f"a question of {asked.family} is answered {granted}; the solver says {expected}")
    return Answered(granted, ours, expected, median([seconds for _, seconds in theirs]))


def _figures(family: str, answered: Sequence[Answered]) -> list[Figure]:
    ours = np.array([one.ours for one in answered]) * 1e3
    found = [
        Figure(f"{family}: granted", sum(one.granted is True for one in answered), "questions", ""),
        Figure(f"{family}: gave up", sum(one.granted is None for one in answered), "questions"),
        *_percentiles(f"{family}", ours, "ms"),
    ]
    settled = [one for one in answered if one.theirs and one.granted_by_solver is not None]
    if settled:
        ratios = np.array([one.ours / one.theirs for one in settled])
        found += _percentiles(f"{family}: part of the solver's time", ratios, "")
        unsettled = len(answered) - len(settled)
        found.append(Figure(f"{family}: not settled by the solver", unsettled, "questions", ""))
    return found


def _percentiles(name: str, values: np.ndarray, unit: str) -> list[Figure]:
    p50, p99, worst = np.percentile(values, [50, 99, 100]).tolist()
    return [
        Figure(f"{name} p50", p50, unit),
        Figure(f"{name} p99", p99, unit),
        Figure(f"{name} worst", worst, unit),
    ]


WORKLOADS = [
    Workload(
        "hard",
        "hard questions on partitioned nodes; with --solver beside CP-SAT",
        hard,
        {
            "": {"questions": 500, "seed": 1, "nodes": 1, "solver": 0},
            "several nodes": {"questions": 50, "seed": 1, "nodes": 8, "solver": 0},
        },
        tiny={"questions": 2, "seed": 1, "nodes": 2, "solver": 0},
        repeats=1,
    ),
]
