"""What is held in each scope, as far as it stands against other devices. Kept up to date scope by scope."""

from collections.abc import Iterable, Iterator

import numpy as np

from kernels.exclusion import compatible, count_marks, shared_by_all, shares_a_name, unpack_bits
from kernels.types import Bits, Mask, Rows
from reconciler.state.devices.exclusion.scopes import Exclusion

NO_ROWS: Rows = np.zeros(0, dtype=np.intp)


class ScopeOccupancy:
    """Live, like the columns it belongs to; `names` and `open` are replaced, never written to."""

    def __init__(self, exclusion: Exclusion, taken: Mask) -> None:
        rows = np.flatnonzero(taken)
        self.exclusion = exclusion
        scopes = exclusion.scopes[rows]
        self.names: Bits = shared_by_all(exclusion.size, scopes, exclusion.names[rows])
        """(S, W) common to all that is held in a scope"""
        marked = np.unique(exclusion.scopes[(exclusion.asks != 0).any(axis=2)])
        marked = marked[marked >= 0]
        # Counts of marks are kept for the scopes in which a device asks for any: mostly there are none.
        self._marked = np.full(exclusion.size + 1, -1, dtype=np.int32)
        self._marked[marked] = np.arange(len(marked), dtype=np.int32)
        places, marks = self._marked[scopes], exclusion.marks if len(marked) else 0
        self._asked = count_marks(len(marked), marks, places, exclusion.asks[rows])
        self._missed = count_marks(len(marked), marks, places, ~exclusion.meets[rows])
        self.open: Mask = self._judge(np.arange(len(taken)), taken)
        """(D,) nothing that is held stands against the device"""

    def changed(self, rows: Iterable[int], taken: Mask) -> Rows:
        """Follow devices that were taken or freed.

        rows  (n,)
        taken (D,)  how it is now
        ->    (m,)  the rows that were judged again, as far as they share no counter set with `rows`
        """
        exclusion = self.exclusion
        concerned: set[int] = set()
        for row in rows:
            if exclusion.bound[row]:
                concerned.update(self._note(row, taken))
        if not concerned:
            return NO_ROWS
        again = exclusion.by_scope.of_any(np.array(sorted(concerned), dtype=np.intp))
        judged = self._judge(again, taken)
        if (judged != self.open[again]).any():
            self.open = self.open.copy()
            self.open[again] = judged
        apart = [scope for scope in concerned if scope >= exclusion.sets]
        return exclusion.by_scope.of_any(np.array(sorted(apart), dtype=np.intp)) if apart else NO_ROWS

    def _note(self, row: int, taken: Mask) -> Iterator[int]:
        """Count one device; the scopes in which that can make a difference to others, or to itself."""
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
        """(W,) worked out afresh."""
        exclusion = self.exclusion
        members = exclusion.by_scope.of(scope)
        members = members[taken[members]]
        scopes = np.where(exclusion.scopes[members] == scope, 0, -1)
        return shared_by_all(1, scopes.astype(np.int32), exclusion.names[members])[0]

    def _judge(self, rows: Rows, taken: Mask) -> Mask:
        exclusion = self.exclusion
        scopes = exclusion.scopes[rows]
        ok = shares_a_name(self.names, scopes, exclusion.names[rows])
        if len(self._asked):
            asks, meets = exclusion.asks[rows], exclusion.meets[rows]
            ok &= compatible(self._asked, self._missed, self._marked[scopes], asks, meets, taken[rows])
        return ok
