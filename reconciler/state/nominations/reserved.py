"""The snapshots that decisions see while nominations count, made once for each set of nominations."""

from collections import OrderedDict
from collections.abc import Callable

from reconciler.state.devices.snapshot.snapshot import Snapshot
from reconciler.state.nominations.held_back import HeldBack
from reconciler.state.nominations.nomination import Nomination, Nominee
from reconciler.state.nominations.table import Nominations

KEPT = 8
"""Most sets of nominations that are followed. Most decisions have none of their own, so they share one."""


class Reserved:
    """The nominations of a store, and the snapshots that respect them."""

    def __init__(self, nominations: Nominations) -> None:
        self.nominations = nominations
        self._followed: OrderedDict[tuple[Nomination, ...], HeldBack] = OrderedDict()
        self._made: dict[tuple[Nomination, ...], Snapshot] = {}
        self._made_of = -1

    def outdated(self) -> None:
        """Drop the snapshots: while one is referenced, the next change copies the columns."""
        self._made.clear()

    def ended(self) -> None:
        """Keep nothing once no nomination is left: followers refer to a whole fleet."""
        if not self.nominations:
            self._made.clear()
            self._followed.clear()

    def snapshot(self, base: Snapshot, own: frozenset[Nominee], next_version: Callable[[], int]) -> Snapshot:
        """A snapshot as a decision for `own` sees it. Equal states have one version."""
        if self._made_of != base.version:
            self._made.clear()
            self._made_of = base.version
        others = self.nominations.besides(own)
        if not others:
            return base
        found = self._made.get(others)
        if found is None:
            found = self._made[others] = self._follower(others, base).of(base, next_version())
        return found

    def _follower(self, others: tuple[Nomination, ...], base: Snapshot) -> HeldBack:
        if any(not known.follows(base) for known in self._followed.values()):
            self._followed.clear()  # all are of an earlier fleet
        found = self._followed.get(others)
        if found is None:
            found = self._followed[others] = HeldBack(others, base.fleet)
            if len(self._followed) > KEPT:
                self._followed.popitem(last=False)
        self._followed.move_to_end(others)
        return found
