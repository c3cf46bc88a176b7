"""Which claims were told no, and why: the present state, counted as it changes."""

from collections import Counter
from collections.abc import Iterable, Iterator

from reconciler.api.objects.meta import ObjectKey
from reconciler.control.queueing.units import Unit


class Pending:
    """The reason of every unit that was refused, and how many claims wait for each.

    A claim that several pods wait for counts once, under the reason told first.
    """

    def __init__(self) -> None:
        self._told: dict[Unit, tuple[str, tuple[ObjectKey, ...]]] = {}
        self._reasons: dict[ObjectKey, dict[Unit, str]] = {}
        self._counts: Counter[str] = Counter()
        self.changes = 0
        """How often anything of this changed"""

    def __len__(self) -> int:
        return len(self._told)

    def __iter__(self) -> Iterator[tuple[Unit, str, tuple[ObjectKey, ...]]]:
        """Unit, reason and claims of all that wait; whose reason has stood longest comes first."""
        return ((unit, reason, claims) for unit, (reason, claims) in self._told.items())

    def reason(self, unit: Unit) -> str:
        """Why a unit waits; empty if it does not."""
        return self._told[unit][0] if unit in self._told else ""

    def note(self, unit: Unit, reason: str, claims: Iterable[ObjectKey]) -> bool:
        """Let a unit wait for a reason. Whether that is another than before."""
        claims = tuple(claims)
        if self._told.get(unit) == (reason, claims):
            return False
        other = self.reason(unit) != reason
        self.drop(unit)
        self.changes += 1
        self._told[unit] = (reason, claims)
        for claim in claims:
            reasons = self._reasons.setdefault(claim, {})
            if not reasons:
                self._counts[reason] += 1
            reasons[unit] = reason
        return other

    def drop(self, unit: Unit) -> None:
        """The unit does not wait any more."""
        self.changes += unit in self._told
        _, claims = self._told.pop(unit, ("", ()))
        for claim in set(claims):
            reasons = self._reasons[claim]
            self._counts[next(iter(reasons.values()))] -= 1
            del reasons[unit]
            if reasons:
                self._counts[next(iter(reasons.values()))] += 1
            else:
                del self._reasons[claim]

    def by_reason(self) -> dict[str, int]:
        """Claims that wait, by reason. A reason that was told stays, with 0: a series should not vanish."""
        return dict(self._counts)
