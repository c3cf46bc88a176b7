"""Finds devices for the claims that come next, each by itself, in the turn of a claim that was just decided.

For claims that do not ask for the same, see `copies`. Each could be decided in its turn. In one go that takes
less: between two turns the process writes, reports and reads events, which fill the caches of the processor.
"""

from collections.abc import Iterable, Iterator

from reconciler.allocation.dra.budget import SelectorsNotRun, StepLimit, Unfinished
from reconciler.api.objects.plan import Granted
from reconciler.control.background_search import QUICK_STEPS
from reconciler.control.decider import Decider
from reconciler.control.planner import Decide, Nothing, Planner
from reconciler.control.units import Kind, Unit
from reconciler.control.waiting import Waiting
from reconciler.state.store import Store


class OneByOne:
    """Reads the state. Changes nothing."""

    def __init__(self, store: Store, planner: Planner, decider: Decider, waiting: Waiting) -> None:
        self._store = store
        self._planner = planner
        self._decider = decider
        self._waiting = waiting

    def find(self, upcoming: Iterable[Unit]) -> Iterator[tuple[Unit, Decide, Granted]]:
        """Devices for the units that come next, in their order, each as it would get them in its turn.

        Those of one must be assumed before the next one is asked for, with no `await` in between.

        Ends before the first unit that is a pod, is pending, gets no devices or has preferences, and before
        they take more steps than one decision may on the loop. Claims that need nothing are left out: they
        have their turn.
        """
        if self._store.nominations:
            return
        budget = StepLimit(QUICK_STEPS)  # for all of them: the loop does nothing else meanwhile
        for unit in upcoming:
            if unit.kind is not Kind.CLAIM or self._waiting.has(unit):
                return
            try:
                found = self._planner.next(unit)
                granted = self._answer(found, budget) if isinstance(found, Decide) else None
            except Exception:
                return  # raised again in the turn of this claim, and reported there: no other one is to blame
            if isinstance(found, Decide) and granted is not None:
                yield unit, found, granted
            elif not isinstance(found, Nothing):
                return

    def _answer(self, question: Decide, budget: StepLimit) -> Granted | None:
        """Devices for a claim; None if it needs a turn of its own."""
        snapshot = self._store.snapshot()  # not kept: while one is referenced, assuming copies the columns
        if not self._decider.repeats(question, snapshot):
            return None
        try:
            answer = self._decider.find(question, snapshot, budget)
        except (SelectorsNotRun, Unfinished):
            return None
        return answer if isinstance(answer, Granted) else None
