"""Finds devices for the units that come next, as far as they ask for the same as one that was just decided.

Pods of one template ask for the same. Each of them could be decided in its turn; together they need one pass
over the nodes.
"""

from collections.abc import Iterable

from kernels.types import Amounts
from reconciler.allocation.alignment.preferences import preferences_of
from reconciler.api.objects.plan import Granted
from reconciler.control.decider import Decider
from reconciler.control.planner import Blocked, Decide, Nothing, Planner, Ungate
from reconciler.control.units import Unit
from reconciler.state.store import Store

Copy = tuple[Unit, Decide, Granted]

FEWEST = 5
"""Claims for which one pass takes less than decisions one by one"""

_HAS_ITS_TURN = (Nothing, Blocked, Ungate)
"""What units need that get no devices now"""


class _Likeness:
    """What a question must have in common with another one to be its copy."""

    def __init__(self, first: Decide, spec: bytes) -> None:
        self._first = first
        self._spec = first.claims[0].spec
        self._key = spec
        self._preferences = preferences_of(first.claims[0])

    def is_copy(self, found: Decide) -> bool:
        """Whether a unit gets what the first would get in its place. Checks what may differ between units."""
        first, claim = self._first, found.claims[0]
        return (
            len(found.claims) == 1
            and not found.held
            and (found.pod is None) == (first.pod is None)
            and (found.nodes is first.nodes or found.nodes == first.nodes)
            and preferences_of(claim) == self._preferences
            and (claim.spec is self._spec or claim.spec.key == self._key)
        )


class Copies:
    """Reads the state. Changes nothing."""

    def __init__(self, store: Store, planner: Planner, decider: Decider) -> None:
        self._store = store
        self._planner = planner
        self._decider = decider

    def find(self, first: Decide, upcoming: Iterable[Unit]) -> list[Copy]:
        """Devices for copies among the units that come next, in their order, each as if it were decided after
        those before it. `first` is decided and assumed.

        Ends before the first unit that would be decided differently: one that asks for something else, or
        does not fit. Units that need no decision about devices are left out: they have their turn.
        """
        snapshot, spec = self._store.snapshot(), first.claims[0].spec.key
        if (
            self._store.nominations
            or first.held
            or spec is None
            or not self._decider.repeats(first, snapshot)
        ):
            return []
        is_copy = _Likeness(first, spec).is_copy
        like = self._planner.like(first)
        units: list[Unit] = []
        questions: list[Decide] = []
        room: Amounts | None = None
        for unit in upcoming:
            found = like(unit)
            if not isinstance(found, Decide):
                if isinstance(found, _HAS_ITS_TURN):
                    continue
                break
            if not is_copy(found):
                break
            if first.pod is not None and room is None:
                room = self._planner.room_for_copies(first.pod)
                if room is None:
                    break
            units.append(unit)
            questions.append(found)
        if not questions or (first.pod is None and len(questions) < FEWEST):
            return []
        return list(zip(units, questions, self._decider.copies(questions, snapshot, room), strict=False))

    def is_current(self, unit: Unit, decided: Decide, granted: Granted) -> bool:
        """Whether the objects of a unit are those that it was decided for, and its devices still assumed."""
        claim, pod = decided.claims[0], decided.pod
        users = () if pod is None else (pod.key,)
        return (
            self._store.claims.get(claim.key) is claim
            and self._store.assumed(claim.metadata.uid) is granted.plans[0]
            and (pod is None or self._store.pods.get(unit.key) is pod)
            and tuple(self._planner.users(claim.key)) == users
        )
