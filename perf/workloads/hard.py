"""Hard questions, and how long a solver takes for them."""

from collections.abc import Sequence
from itertools import count
from statistics import median
from time import thread_time
from typing import NamedTuple

import numpy as np

from perf.deciding import Wrong, read_claim
from perf.fleets.hard import FAMILIES, Question, Scale, questions
from perf.hard_solver import solve
from perf.workload import Figure, Outcome, Progress, Size, Workload
from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.dra.selector_masks import warm_up
from reconciler.api.objects.plan import Granted, Reason
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.state.trial import store_of

ROUNDS = 3
HELD = (0.0, 0.5)
"""Shares of the GPUs on which others hold partitions, in turn"""


class Answered(NamedTuple):
    """One question."""

    granted: bool | None
    """None: given up"""
    ours: float
    """Seconds"""
    granted_by_solver: bool | None
    theirs: float


def ask(asked: Question) -> tuple[bool | None, float]:
    """Whether there are devices, None if the search gave up; and the seconds of one decision.

    The fleet is new, so that nothing is known of its claims.
    """
    snapshot = store_of([read(one) for one in (*asked.fleet, *asked.held)], Semantics()).snapshot()
    claims = [read_claim(one) for one in asked.claims]
    began = thread_time()
    outcome = allocate(claims, snapshot)
    seconds = thread_time() - began
    if isinstance(outcome, Granted):
        return True, seconds
    return None if outcome.reason is Reason.GAVE_UP else False, seconds


def hard(size: Size, progress: Progress) -> Outcome:
    """So many questions of each family, half of them with partitions held. Raises Wrong."""
    warm_up()
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
    rounds = [ask(asked) for _ in range(ROUNDS)]
    granted, ours = rounds[0][0], median([seconds for _, seconds in rounds])
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
