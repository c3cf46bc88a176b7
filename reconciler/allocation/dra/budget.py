"""How long a decision may run, and how it ends without a plain answer.

Steps are counted in nodes and devices tried, never in time.
"""

from collections.abc import Callable

from reconciler.api.objects.plan import Reason
from reconciler.errors import ReconcilerError

STEPS = 10_000
"""Devices tried for one decision on one node before the search gives up"""


class Unfinished(ReconcilerError):
    """A decision was stopped early. Its answer is not known."""


class SelectorsNotRun(Unfinished):
    """The decision needs selectors that never ran on this fleet, or that were slow before."""


class Budget:
    """A decision without a limit but its own steps."""

    skips_slow_selectors = False
    """Whether to stop where selectors may take long"""

    def spend(self) -> None:
        """Count one node or device. Called before each is tried. Raises Unfinished to stop the decision."""


class StepLimit(Budget):
    """Stops a decision that turns out to be long. A decision that ends has the same answer as any other."""

    skips_slow_selectors = True

    def __init__(self, steps: int) -> None:
        """`steps` nodes and devices may be tried."""
        self._remaining = steps

    def spend(self) -> None:
        """See `Budget.spend`."""
        self._remaining -= 1
        if self._remaining < 0:
            raise Unfinished("the search is long")


class WhileWanted(Budget):
    """Runs a decision for as long as a caller waits for its answer."""

    def __init__(self, wanted: Callable[[], bool], every: int) -> None:
        """`wanted` is asked once in `every` steps."""
        self._wanted = wanted
        self._every = every
        self._steps = 0

    def spend(self) -> None:
        """See `Budget.spend`."""
        self._steps += 1
        if self._steps % self._every == 0 and not self._wanted():
            raise Unfinished("nobody waits for the answer any more")


UNLIMITED = Budget()


class Fatal(ReconcilerError):
    """An error that ends the attempt on a node, with the reason for the answer."""

    def __init__(self, reason: Reason, message: str, claim: int | None = None) -> None:
        """`claim` is the position of the faulty claim, where the message does not name it."""
        super().__init__(message)
        self.reason = reason
        self.claim = claim


class GaveUp(ReconcilerError):
    """The steps are used up. Whether a solution exists is not known."""
