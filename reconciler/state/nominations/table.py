"""The nominations that count now, at most one for each nominee."""

from collections.abc import Iterable, Iterator

from reconciler.state.nominations.nomination import HeldPlace, Nomination, Nominee, NomineeKind


class Nominations:
    """Changed by the store alone."""

    def __init__(self, known: Iterable[Nomination] = ()) -> None:
        self._known = {one.nominee: one for one in known}
        self.serial = 0
        """Number of changes so far"""

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Nomination]:
        """The oldest first."""
        return iter(tuple(self._known.values()))

    def get(self, nominee: Nominee) -> Nomination | None:
        """What is held for a nominee."""
        return self._known.get(nominee)

    def put(self, nomination: Nomination) -> Nomination | None:
        """Hold room, in place of what is held for the same nominee, which is returned."""
        self.serial += 1
        before = self._known.pop(nomination.nominee, None)
        self._known[nomination.nominee] = nomination
        return before

    def drop(self, nominee: Nominee) -> Nomination | None:
        """Hold nothing for a nominee any more. Returns what was held."""
        found = self._known.pop(nominee, None)
        self.serial += found is not None
        return found

    def besides(self, own: frozenset[Nominee]) -> tuple[Nomination, ...]:
        """The nominations of others."""
        return tuple(one for nominee, one in self._known.items() if nominee not in own)

    def expected(self, own: frozenset[Nominee]) -> HeldPlace | None:
        """Where a pod is to replace one that was evicted, if it is the next one of its controller."""
        for nominee in own:
            if nominee.kind is NomineeKind.REPLACEMENT and (found := self._known.get(nominee)) is not None:
                return found.places[0]
        return None

    def expired(self, now: float) -> tuple[Nomination, ...]:
        """Those whose deadline has passed."""
        return tuple(one for one in self._known.values() if one.until <= now)

    def next_deadline(self) -> float | None:
        """The earliest deadline; None without nominations."""
        return min((one.until for one in self._known.values()), default=None)

    def fork(self) -> "Nominations":
        """The same, changed independently from now on."""
        return Nominations(self._known.values())
