"""Solves packing problems: how many devices still fit into counters. Equal problems are solved once."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from kernels.packing import WorthBounds, max_worth
from kernels.types import Amounts
from reconciler.state.devices.encoding.recent import Recent

CACHE_SIZE = 1 << 14
"""Maximum cached solutions"""
BUDGET = 2_000
"""Maximum search steps per problem"""
EFFORT = 20_000
"""Maximum search steps per measurement. After that, solutions are bounds"""


class PackingProblem(Struct, frozen=True):
    """The draws of n devices from C counters, what is left in the counters, and the worth of each device."""

    draws: Amounts
    """(n, C)"""
    left: Amounts
    """(C,)"""
    worth: Sequence[int] | None = None
    """None means 1 for each device"""


class Solver:
    """Solves problems and caches the solutions. Not thread-safe."""

    def __init__(self, *, budget: int = BUDGET, effort: int = EFFORT) -> None:
        """`budget` limits one problem, `effort` all problems between two calls of `begin`."""
        self._budget = budget
        self._effort = effort
        self._spent = 0
        self._known: Recent[object, WorthBounds] = Recent(CACHE_SIZE)

    def begin(self) -> None:
        """Start a measurement: reset the used effort."""
        self._spent = 0

    def solve(self, problem: PackingProblem) -> WorthBounds:
        """The most that fits together. A later call may continue a search that was not finished."""
        # Counters without draws do not matter.
        counters = np.flatnonzero(problem.draws.any(axis=0))
        draws, left = problem.draws[:, counters], problem.left[counters]
        # Amounts above the sum of all draws do not matter.
        left = np.minimum(left, draws.sum(axis=0))
        worth = [1] * len(draws) if problem.worth is None else list(problem.worth)
        key = (draws.shape, draws.tobytes(), left.tobytes(), tuple(worth) if problem.worth else None)
        known = self._known.get(key)
        if known is not None and known.best == known.bound:
            return known
        greedy = len(draws) + 1
        budget = max(greedy, min(self._budget, self._effort - self._spent))
        if known is not None and known.steps >= budget:
            return known
        found = max_worth(draws, [1] * len(draws), worth, left, budget)
        self._spent += found.steps
        return self._known.put(key, found)
