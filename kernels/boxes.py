"""Which counts of several kinds can be reached together, as the bits of one integer.

A cell of a box is a vector of counts, each at most its cap; a set of cells is an integer with a bit for each.
All sets here are closed downwards: with a vector they contain every smaller one. So a set says "so many of
each kind, or fewer". What a constraint allows only so often is a kind too: it counts what is still allowed.

A shift of the integer moves all vectors at once: a box of 30,000 cells is combined with a vector in a
microsecond, where a search looks at its cells one by one.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from kernels.types import Amounts


class Step(NamedTuple):
    """One way to move the cells of a set."""

    among: int
    """The cells that can move"""
    shift: int
    """How far, in bits; negative towards smaller numbers"""


class Box:
    """The vectors with coordinates from 0 to `caps` (K,)."""

    def __init__(self, caps: Sequence[int]) -> None:
        self.caps = tuple(caps)
        self.strides: list[int] = []
        self.size = 1
        for cap in caps:
            self.strides.append(self.size)
            self.size *= cap + 1
        self.full = (1 << self.size) - 1
        self._at_most: dict[tuple[int, int], int] = {}

    def at_most(self, kind: int, top: int) -> int:
        """The cells with at most `top` of a kind."""
        if top >= self.caps[kind]:
            return self.full
        if top < 0:
            return 0
        key = kind, top
        if key not in self._at_most:
            stride = self.strides[kind]
            cells, length = (1 << stride * (top + 1)) - 1, stride * (self.caps[kind] + 1)
            while length < self.size:
                cells |= cells << length
                length *= 2
            self._at_most[key] = cells & self.full
        return self._at_most[key]

    def below(self, corner: Sequence[int]) -> int:
        """The cells that are nowhere above a vector."""
        cells = self.full
        for kind, top in enumerate(corner):
            cells &= self.at_most(kind, top)
        return cells

    def step(self, change: Sequence[int], *, only_zero: Iterable[int] = ()) -> Step:
        """The step that adds a vector. It moves no cell out of the box.

        only_zero  kinds of which a cell must have none to be moved
        """
        among, shift = self.full, 0
        for kind, by in enumerate(change):
            if by:
                shift += by * self.strides[kind]
                cap = self.caps[kind]
                among &= self.at_most(kind, cap - by) if by > 0 else self.full ^ self.at_most(kind, -by - 1)
        for kind in only_zero:
            among &= self.at_most(kind, 0)
        return Step(among, shift)

    def closed(self, cells: int, rises: Sequence[int]) -> int:
        """The cells and all smaller ones, by at most `rises` (K,) in each kind."""
        for kind, most in enumerate(rises):
            done = 0
            while done < most:
                by = min(done + 1, most - done)
                cells |= (cells & ~self.at_most(kind, by - 1)) >> by * self.strides[kind]
                done += by
        return cells

    def renewed(self, cells: int, kind: int) -> int:
        """The cells with any number of a kind, which becomes allowed as often as at first."""
        zero, stride = cells & self.at_most(kind, 0), self.strides[kind]
        found = zero
        for count in range(1, self.caps[kind] + 1):
            found |= zero << count * stride
        return found

    def largest(self, cells: int) -> int:
        """The cells of a set that are below no other one."""
        inner = 0
        for kind, stride in enumerate(self.strides):
            inner |= (cells >> stride) & self.at_most(kind, self.caps[kind] - 1)
        return cells & ~inner

    def of(self, vectors: Amounts) -> int:
        """The set of the vectors (v, k) of the first kinds, with none of the others."""
        chosen = np.zeros(self.size, dtype=np.bool_)
        chosen[vectors @ np.array(self.strides[: vectors.shape[1]], dtype=np.int64)] = True
        return int.from_bytes(np.packbits(chosen, bitorder="little").tobytes(), "little")

    def vectors(self, cells: int) -> Amounts:
        """(v, K) the vectors of a set."""
        packed = np.frombuffer(cells.to_bytes((self.size + 7) // 8, "little"), dtype=np.uint8)
        found = np.flatnonzero(np.unpackbits(packed, bitorder="little"))
        return found[:, None] // np.array(self.strides, dtype=np.int64) % (np.array(self.caps) + 1)


def moved(cells: int, steps: Iterable[Step]) -> int:
    """Where the steps lead from a set of cells; each cell takes one of them."""
    found = 0
    for among, shift in steps:
        found |= (cells & among) << shift if shift >= 0 else (cells & among) >> -shift
    return found


def packings(
    left: Sequence[int], draws: Sequence[Sequence[int]], classes: Sequence[int], *, limit: int
) -> list[tuple[int, ...]] | None:
    """The largest counts of devices of each class that fit together on the counters of one group.

    left    (C,)    remaining counters; may be negative
    draws   (m, C)  draw of each device, not negative; a draw of 0 always fits
    classes (m,)    class of each device, from 0
    limit           states to look at
    ->              counts of which none is below another in every class; None if the limit was reached

    A bound by amounts alone lets a 4g and three 2g through that have no place together on a GPU. Here devices
    are added one by one, the large ones first, and counters that no later device draws from are forgotten.
    """
    kinds = max(classes, default=-1) + 1
    used = [c for c in range(len(left)) if any(draw[c] for draw in draws)]
    width = max([max(left[c], 0) for c in used], default=0).bit_length() + 1
    guards = sum([1 << width * (at + 1) - 1 for at in range(len(used))])
    devices = sorted(
        [
            (-sum(draw), kind, sum([draw[c] << width * at for at, c in enumerate(used)]))
            for draw, kind in zip(draws, classes, strict=True)
            if all(not draw[c] or draw[c] <= left[c] for c in used)
        ]
    )
    base, span = width * len(used), len(devices).bit_length()
    counts = (1 << span * kinds) - 1 << base
    field = (1 << width) - 1
    states = {sum([max(left[c], 0) << width * at for at, c in enumerate(used)])}
    looked = 0
    for number, (_, kind, draw) in enumerate(devices):
        later = [drawn for _, _, drawn in devices[number + 1 :]]
        live = counts
        for at in range(len(used)):
            if any(drawn >> width * at & field for drawn in later):
                live |= field << width * at
        unit = 1 << base + span * kind
        looked += len(states)
        if looked > limit:
            return None
        added = set()
        for state in states:
            rest = (state | guards) - draw
            if rest & guards == guards:
                added.add((rest ^ guards) + unit & live)
        states = {state & live for state in states} | added
    found = {state >> base for state in states}
    mask = (1 << span) - 1
    return _largest([tuple([packed >> span * k & mask for k in range(kinds)]) for packed in found])


def _largest(counts: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    ordered = sorted(counts, key=sum, reverse=True)
    kept, number = np.array(ordered, dtype=np.int32), 0  # rows move to the front
    for one in ordered:
        if not (kept[:number] >= one).all(axis=1).any():
            kept[number] = one
            number += 1
    return list(map(tuple, kept[:number].tolist()))


def handed_out(counts: Sequence[tuple[int, ...]], serves: Sequence[Sequence[Step]], start: int) -> int:
    """The cells that devices can lead to, when each serves one of the kinds of its class, or none.

    counts (v, L)  devices of each class that there are together
    serves (L)     of each class, the steps of its kinds
    start          the cells to start from
    """
    found, way = start, [start]
    before: tuple[int, ...] = ()
    for one in sorted(counts):
        equal = [a == b for a, b in zip(one, before, strict=False)]
        same = equal.index(False) if False in equal else len(equal)
        del way[same + 1 :]  # `way` has the cells after each class
        for count, steps in zip(one[same:], serves[same:], strict=False):
            cells = way[-1]
            for _ in range(count):
                cells |= moved(cells, steps)
            way.append(cells)
        found |= way[-1]
        before = one
    return found
