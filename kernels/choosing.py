"""At each place, the first thing that is there and not taken yet."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kernels.types import Codes, Rows

NONE = -1


class Spans(NamedTuple):
    """Several lists of places, one after another."""

    places: Rows
    """(P,)"""
    starts: Rows
    """(S + 1,) where each list starts, and the end"""

    @staticmethod
    def joined(lists: Sequence[Rows]) -> "Spans":
        """The lists as one."""
        starts = np.zeros(len(lists) + 1, dtype=np.intp)
        np.cumsum([len(one) for one in lists], out=starts[1:])
        return Spans(np.concatenate([np.zeros(0, dtype=np.intp), *lists]), starts)

    def of(self, numbers: Codes | Rows) -> tuple[Rows, Rows]:
        """(E,) positions in `numbers` and (E,) places: each of these lists in turn.

        numbers (n,) of lists
        """
        starts = self.starts[numbers]
        lengths = self.starts[1:][numbers] - starts
        ends = np.cumsum(lengths)
        which = np.repeat(np.arange(len(lengths)), lengths)
        at = np.arange(len(which)) - np.repeat(ends - lengths, lengths) + np.repeat(starts, lengths)
        return which, self.places[at]


def first_at_each(things: Codes, places: Rows, size: int, taken: Sequence[Codes] = ()) -> Codes:
    """(size,) the first thing at each place; NONE where there is none.

    things (E,) what is there, smallest first
    places (E,) and where
    taken  (size,) each: what is not there any more, or NONE
    """
    for gone in taken:
        left = gone[places] != things
        things, places = things[left], places[left]
    found = np.full(size, NONE, dtype=np.int32)
    found[places[::-1]] = things[::-1]  # of several assignments the last counts
    return found


def leading(groups: Codes, most: int) -> Rows:
    """The positions of the first `most` things of each group, in order.

    groups (T,)
    """
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(ordered) else order
    rank = np.arange(len(ordered)) - np.repeat(starts, np.diff([*starts.tolist(), len(ordered)]))
    found: Rows = np.sort(order[rank < most])
    return found
