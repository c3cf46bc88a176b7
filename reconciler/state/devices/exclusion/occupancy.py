"""What the held devices of each scope exclude, updated scope by scope."""

from collections.abc import Iterable, Iterator
from copy import copy

import numpy as np

from kernels.distinct import distinct
from kernels.exclusion import compatible, count_marks, shared_by_all, shares_a_name, unpack_bits
from kernels.types import Bits, Mask, Rows
from reconciler.state.devices.exclusion.scopes import Exclusion

NO_ROWS: Rows = np.zeros(0, dtype=np.intp)


class ScopeOccupancy:
    """Mutable, like the columns it belongs to. `names` and `open` are replaced, never modified in place."""

    def __init__(self, exclusion: Exclusion, taken: Mask) -> None:
        rows = np.flatnonzero(taken)
        self.exclusion = exclusion
        scopes = exclusion.scopes[rows]
        self.names: Bits = shared_by_all(exclusion.size, scopes, exclusion.names[rows])
        """(S, W) names that all held devices of a scope share"""
        marked = distinct(exclusion.scopes[(exclusion.asks != 0).any(axis=2)])
        marked = marked[marked >= 0]
        # Marks are counted only in scopes where a device asks for one: usually none.
        self._marked = np.full(exclusion.size + 1, -1, dtype=np.int32)
        self._marked[marked] = np.arange(len(marked), dtype=np.int32)
        places, marks = self._marked[scopes], exclusion.marks if len(marked) else 0
        self._asked = count_marks(len(marked), marks, places, exclusion.asks[rows])
        self._missed = count_marks(len(marked), marks, places, ~exclusion.meets[rows])
        self.open: Mask = self._evaluate(np.arange(len(taken)), taken)
        """(D,) no held device excludes the device"""

    def fork(self) -> "ScopeOccupancy":
        """The same, changed independently from now on."""
        other = copy(self)
        other._asked, other._missed = self._asked.copy(), self._missed.copy()
        return other

    def changed(self, rows: Iterable[int], taken: Mask) -> Rows:
        """Follow devices that were taken or released.

        rows  (n,)
        taken (D,)  current
        ->    (m,)  the re-evaluated rows that share no counter set with `rows`
        """
        exclusion = self.exclusion
        affected: set[int] = set()
        for row in rows:
            if exclusion.bound[row]:
                affected.update(self._count(row, taken))
        if not affected:
            return NO_ROWS
        again = exclusion.by_scope.of_any(np.array(sorted(affected), dtype=np.intp))
        evaluated = self._evaluate(again, taken)
        if (evaluated != self.open[again]).any():
            self.open = self.open.copy()
            self.open[again] = evaluated
        apart = [scope for scope in affected if scope >= exclusion.sets]
        return exclusion.by_scope.of_any(np.array(sorted(apart), dtype=np.intp)) if apart else NO_ROWS

    def _count(self, row: int, taken: Mask) -> Iterator[int]:
        """Count one device; yield the scopes in which this may affect a device."""
        exclusion = self.exclusion
        sign = 1 if taken[row] else -1
        for k, scope in enumerate(exclusion.scopes[row].tolist()):
            if scope < 0:
                continue
            common = self.names[scope] & exclusion.names[row, k] if sign > 0 else self._common(scope, taken)
            if (common != self.names[scope]).any():
                self.names = self.names.copy()
                self.names[scope] = common
                yield scope
            place = int(self._marked[scope])
            if place >= 0:
                self._asked[place] += sign * unpack_bits(exclusion.asks[row, k], exclusion.marks)
                self._missed[place] += sign * unpack_bits(~exclusion.meets[row, k], exclusion.marks)
                yield scope

    def _common(self, scope: int, taken: Mask) -> Bits:
        """(W,) names that all held devices of a scope share, computed anew."""
        exclusion = self.exclusion
        members = exclusion.by_scope.of(scope)
        members = members[taken[members]]
        scopes = np.where(exclusion.scopes[members] == scope, 0, -1)
        return shared_by_all(1, scopes.astype(np.int32), exclusion.names[members])[0]

    def _evaluate(self, rows: Rows, taken: Mask) -> Mask:
        exclusion = self.exclusion
        scopes = exclusion.scopes[rows]
        ok = shares_a_name(self.names, scopes, exclusion.names[rows])
        if len(self._asked):
            asks, meets = exclusion.asks[rows], exclusion.meets[rows]
            ok &= compatible(self._asked, self._missed, self._marked[scopes], asks, meets, taken[rows])
        return ok
