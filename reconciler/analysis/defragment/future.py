"""The fleet as it will be after the moves of one step, and whether it then holds what it must."""

from collections.abc import Iterable

import numpy as np

from kernels.distinct import distinct
from kernels.types import Codes, Rows
from reconciler.analysis.defragment.goals import Goal
from reconciler.analysis.defragment.holds import Holds
from reconciler.analysis.defragment.movers import Mover


class Future:
    """The fleet after all moves of an option: its pods are gone, or in their new places."""

    def __init__(self, goal: Goal, holds: Holds, counts: Codes) -> None:
        self._goal = goal
        self.holds = holds
        self.counts = counts
        """(fields,) how many each field holds"""
        self._required: dict[int, int] = {}
        self._refused: set[tuple[bytes, bytes]] = set()
        """Draws and states of fields: a device that costs a field too much has many equals"""

    def leave(self, movers: Iterable[Mover]) -> None:
        """Take pods out."""
        for mover in movers:
            self.holds.give_back(mover.rows)
            self._count(self._fields(mover.rows))

    def require(self, field: int, level: int) -> None:
        """A field must hold so many in the end; the others must not lose any."""
        self._required[field] = level

    def enter(self, rows: Rows) -> None:
        """Put a pod in."""
        self.holds.take(rows)
        self._count(self._fields(rows))
        self._refused.clear()

    def accepts(self, rows: Rows) -> bool:
        """Whether no field holds too few with these devices held."""
        fields = self._fields(rows)
        alike = b"", b""
        if len(rows) == len(fields) == 1 and fields[0] not in self._required:
            alike = self.holds.fleet.draws[rows].tobytes(), self._goal.state(fields[0], self.holds)
            if alike in self._refused:
                return False
        self.holds.take(rows)
        fine = all(
            self._goal.count(field, self.holds).least >= self._required.get(field, int(self.counts[field]))
            for field in fields
        )
        self.holds.give_back(rows)
        if not fine and alike[1]:
            self._refused.add(alike)
        return fine

    def worse(self) -> Codes:
        """(D,) 0 for devices where nothing can be lost, 1 for the others."""
        return np.append(self.counts > 0, False)[self._goal.of].astype(np.int32)

    def _fields(self, rows: Rows) -> list[int]:
        found = distinct(self._goal.of[rows])
        fields: list[int] = found[found >= 0].tolist()
        return fields

    def _count(self, fields: Iterable[int]) -> None:
        for field in fields:
            self.counts[field] = self._goal.count(field, self.holds).least
