"""Taints that pods should avoid, as a column that follows the nodes. They keep no pod out."""

from collections.abc import Iterable

import numpy as np

from kernels.types import Amounts, Codes
from reconciler.api.objects.core import Taint, Toleration
from reconciler.state.nodes.growing import widened
from reconciler.state.nodes.taints import tolerated

SPARE = 64
"""With more sets of taints than this plus two for each row, those that are out of use are dropped"""


class SoftTaints:
    """The taints with `PreferNoSchedule` of each row of nodes."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[Taint, ...], int] = {(): 0}
        self._kind: Codes = np.zeros(0, dtype=np.int32)
        """(N or more,)"""
        self._of_row: list[tuple[Taint, ...]] = []

    def fork(self) -> "SoftTaints":
        """The same taints, changed independently from now on."""
        other = SoftTaints()
        other._kinds, other._kind, other._of_row = dict(self._kinds), self._kind.copy(), list(self._of_row)
        return other

    def put(self, row: int, taints: tuple[Taint, ...]) -> None:
        """Set the taints of a row: an existing row or the next one."""
        if row == len(self._of_row):
            self._of_row.append(())
        if self._of_row[row] == taints and row < len(self._kind):
            return
        self._of_row[row] = taints
        self._kind = widened(self._kind, row + 1)
        self._kind[row] = self._kinds.setdefault(taints, len(self._kinds))
        if len(self._kinds) > 2 * len(self._of_row) + SPARE:
            self._kinds = {(): 0}
            for at, kept in enumerate(self._of_row):
                self._kind[at] = self._kinds.setdefault(kept, len(self._kinds))

    def untolerated(self, tolerations: Iterable[Toleration]) -> Amounts | None:
        """(N,) how many taints of each row the pod does not tolerate; None if there are none at all."""
        known = tuple(tolerations)
        counts = np.array(
            [sum(not tolerated((taint,), known) for taint in taints) for taints in self._kinds],
            dtype=np.int64,
        )
        found: Amounts = counts[self._kind[: len(self._of_row)]]
        return found if found.any() else None
