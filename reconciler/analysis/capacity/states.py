"""What still fits into counters in one state. Sets in the same state are asked about once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernels.packing import WorthBounds, max_worth
from kernels.types import Amounts
from reconciler.state.devices.encoding.recent import Recent

KEPT = 1 << 14
"""States that are remembered"""
BUDGET = 2_000
"""Choices looked at for one question"""
EFFORT = 20_000
"""Choices looked at in one measurement; where they are used up the bounds are the answer"""


@dataclass(frozen=True, slots=True)
class Question:
    """What some devices draw from some counters, what is left there, and what each is worth."""

    draws: Amounts
    """(n, C)"""
    left: Amounts
    """(C,)"""
    worth: Sequence[int] | None = None
    """None: each counts one"""


class Solver:
    """Answers, and remembers. Not for several threads at once."""

    def __init__(self, *, budget: int = BUDGET, effort: int = EFFORT) -> None:
        """`budget` bounds one question, `effort` those between two calls of `begin`."""
        self._budget = budget
        self._effort = effort
        self._spent = 0
        self._known: Recent[object, WorthBounds] = Recent(KEPT)

    def begin(self) -> None:
        """A new measurement, with all of its effort."""
        self._spent = 0

    def solve(self, asked: Question) -> WorthBounds:
        """The most that fits at once. What was not searched to the end may be, the next time."""
        # Counters from which none of them draws do not matter: their states are one.
        counters = np.flatnonzero(asked.draws.any(axis=0))
        draws, left = asked.draws[:, counters], asked.left[counters]
        # Nor does it matter how much more than all of them draw there is.
        left = np.minimum(left, draws.sum(axis=0))
        worth = [1] * len(draws) if asked.worth is None else list(asked.worth)
        key = (draws.shape, draws.tobytes(), left.tobytes(), tuple(worth) if asked.worth else None)
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
