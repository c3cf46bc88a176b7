"""Which claims are pending, and why: the present state, counted as it changes."""

from collections import Counter
from collections.abc import Iterable, Iterator

from reconciler.api.objects.meta import ObjectKey
from reconciler.control.queueing.units import Unit


class Pending:
    """The reason of every pending unit, and the number of pending claims for each reason.

    A claim that several pods wait for counts once, under the earliest reason.
    """

    def __init__(self) -> None:
        self._units: dict[Unit, tuple[str, tuple[ObjectKey, ...]]] = {}
        self._reasons: dict[ObjectKey, dict[Unit, str]] = {}
        self._counts: Counter[str] = Counter()
        self._spells: dict[Unit, int] = {}
        self._spells_begun = 0
        self.changes = 0
        """Number of changes so far"""

    def __len__(self) -> int:
        return len(self._units)

    def __iter__(self) -> Iterator[tuple[Unit, str, tuple[ObjectKey, ...]]]:
        """Unit, reason and claims of all pending units, the oldest reason first."""
        return ((unit, reason, claims) for unit, (reason, claims) in self._units.items())

    def reason(self, unit: Unit) -> str:
        """Why a unit is pending; empty if it is not."""
        return self._units[unit][0] if unit in self._units else ""

    def spell(self, unit: Unit) -> int:
        """The number of the time span in which a unit is pending without interruption. 0 if it is not."""
        return self._spells.get(unit, 0)

    def note(self, unit: Unit, reason: str, claims: Iterable[ObjectKey]) -> bool:
        """Make a unit pending for a reason. Returns whether the reason is new."""
        claims = tuple(claims)
        if self._units.get(unit) == (reason, claims):
            return False
        other = self.reason(unit) != reason
        if unit not in self._spells:
            self._spells_begun += 1
            self._spells[unit] = self._spells_begun
        self._remove(unit)
        self.changes += 1
        self._units[unit] = (reason, claims)
        for claim in claims:
            reasons = self._reasons.setdefault(claim, {})
            if not reasons:
                self._counts[reason] += 1
            reasons[unit] = reason
        return other

    def drop(self, unit: Unit) -> None:
        """The unit is no longer pending."""
        if self._spells.pop(unit, None) is None:  # as for nearly every unit whose turn ends
            return
        self._remove(unit)

    def _remove(self, unit: Unit) -> None:
        self.changes += unit in self._units
        _, claims = self._units.pop(unit, ("", ()))
        for claim in set(claims):
            reasons = self._reasons[claim]
            self._counts[next(iter(reasons.values()))] -= 1
            del reasons[unit]
            if reasons:
                self._counts[next(iter(reasons.values()))] += 1
            else:
                del self._reasons[claim]

    def by_reason(self) -> dict[str, int]:
        """Pending claims by reason. Past reasons stay, with 0: a metric series should not vanish."""
        return dict(self._counts)
