"""Takes devices in order, each only if it fits in what those before it left. Integers only."""

from typing import NamedTuple

from kernels.index import Inverse
from kernels.types import Amounts, Codes, Mask, Rows


class Shelf(NamedTuple):
    """D devices that draw from S counter sets with C counters. Taking a device writes `open` and `left`."""

    open: Mask
    """(D,) devices that could be taken next, each judged on its own"""
    left: Amounts
    """(S, C) what is left of the sets"""
    table: Amounts
    """(P, C) distinct draws"""
    sets: Codes
    """(D, K) sets that each device draws from, -1 for none"""
    draws: Codes
    """(D, K) row of `table` for each of those sets"""
    by_set: Inverse
    """Set -> the devices that draw from it"""

    def copy(self) -> "Shelf":
        """The same, to be written independently."""
        return self._replace(open=self.open.copy(), left=self.left.copy())


def take_in_order(shelf: Shelf, rows: Rows, most: int) -> list[int]:
    """Take the first devices that fit, at most so many. Returns their rows in the order of `rows`.

    rows (n,)  distinct devices, in the order in which they are tried
    """
    rows = rows[shelf.open[rows]]
    if not shelf.sets.shape[1] or not (shelf.sets[rows] >= 0).any():
        rows = rows[:most]
        shelf.open[rows] = False
        return [int(row) for row in rows]
    taken: list[int] = []
    for row in rows.tolist():
        if len(taken) >= most:
            break
        if shelf.open[row]:
            _take(shelf, row)
            taken.append(row)
    return taken


def _take(shelf: Shelf, row: int) -> None:
    """Take one device; devices of its sets that do not fit any more are closed."""
    shelf.open[row] = False
    drawn = [
        pair for pair in zip(shelf.sets[row].tolist(), shelf.draws[row].tolist(), strict=True) if pair[0] >= 0
    ]
    for number, draw in drawn:
        shelf.left[number] -= shelf.table[draw]
    for number, _ in drawn:
        near = shelf.by_set.of(number)
        near = near[shelf.open[near]]
        if len(near):
            # All that is open fits into its other sets, of which nothing was taken.
            wanted = shelf.table[shelf.draws[near]]
            short = (wanted > shelf.left[number]) & (wanted != 0)
            short &= (shelf.sets[near] == number)[:, :, None]
            shelf.open[near[short.any(axis=(1, 2))]] = False
