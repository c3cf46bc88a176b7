"""What is held in each scope, as far as it stands against other devices. Kept up to date scope by scope."""

import numpy as np

from kernels.exclusion import counted, joins, shared_by_all, tolerated, unpacked
from kernels.types import Bits, Mask, Rows
from reconciler.inventory.scopes import Exclusion

NO_ROWS: Rows = np.zeros(0, dtype=np.intp)


class HeldScopes:
    """Live, like the columns it belongs to; `names` and `open` are replaced, never written to."""

    def __init__(self, exclusion: Exclusion, taken: Mask) -> None:
        rows = np.flatnonzero(taken)
        self.exclusion = exclusion
        scopes = exclusion.scopes[rows]
        self.names: Bits = shared_by_all(exclusion.size, scopes, exclusion.names[rows])
        """(S, W) common to all that is held in a scope"""
        self._asked = counted(exclusion.size, exclusion.marks, scopes, exclusion.asks[rows])
        self._missed = counted(exclusion.size, exclusion.marks, scopes, ~exclusion.meets[rows])
        self.open: Mask = self._judge(np.arange(len(taken)), taken)
        """(D,) nothing that is held stands against the device"""

    def changed(self, rows: Rows, taken: Mask) -> Rows:
        """Follow devices that were taken or freed.

        rows  (n,)
        taken (D,)  how it is now
        ->    (m,)  the rows that were judged again, as far as they share no counter set with `rows`
        """
        exclusion = self.exclusion
        rows = rows[exclusion.bound[rows]]
        if not len(rows):
            return NO_ROWS
        scopes = exclusion.scopes[rows]
        signs = np.where(taken[rows], 1, -1)
        for row, sign in zip(rows.tolist(), signs.tolist(), strict=True):
            for k, scope in enumerate(exclusion.scopes[row].tolist()):
                if scope >= 0:
                    self._asked[scope] += sign * unpacked(exclusion.asks[row, k], exclusion.marks)
                    self._missed[scope] += sign * unpacked(~exclusion.meets[row, k], exclusion.marks)
        concerned = np.unique(scopes[scopes >= 0]).astype(np.intp)
        again = exclusion.by_scope.of_any(concerned)
        self._common(concerned, again[taken[again]])
        judged = self._judge(again, taken)
        if (judged != self.open[again]).any():
            self.open = self.open.copy()
            self.open[again] = judged
        apart = concerned[concerned >= exclusion.sets]
        return exclusion.by_scope.of_any(apart) if len(apart) else NO_ROWS

    def _common(self, concerned: Rows, members: Rows) -> None:
        exclusion = self.exclusion
        local = np.full(exclusion.size, -1, dtype=np.int32)
        local[concerned] = np.arange(len(concerned), dtype=np.int32)
        scopes = exclusion.scopes[members]
        common = shared_by_all(
            len(concerned), np.where(scopes >= 0, local[scopes], -1), exclusion.names[members]
        )
        if (common != self.names[concerned]).any():
            self.names = self.names.copy()
            self.names[concerned] = common

    def _judge(self, rows: Rows, taken: Mask) -> Mask:
        exclusion = self.exclusion
        scopes = exclusion.scopes[rows]
        ok = joins(self.names, scopes, exclusion.names[rows])
        if exclusion.marks:
            ok &= tolerated(
                self._asked, self._missed, scopes, exclusion.asks[rows], exclusion.meets[rows], taken[rows]
            )
        return ok
