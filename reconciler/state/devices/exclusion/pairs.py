"""Which pairs of a pool's devices an expression judges. Source: GRP-10.

Devices are judged within their place: the generation, and the node if every device of the pool has one. Two
of them are judged if they share a counter set, or if one of them draws from none. A driver may also have all
pairs of a place judged.

Counter sets are scopes already. The other pairs get scopes of their own, as small as possible: the connected
devices of a graph whose edges are the pairs that exclude each other. So what is held of one physical device
is compared only with the devices of this physical device, even in a pool of thousands.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kernels.types import Codes, Mask
from reconciler.state.devices.encoding.block import Block
from reconciler.state.devices.pools.counters import PoolCounters


class Statement(NamedTuple):
    """An expression on the n devices of a pool."""

    by: Mask
    """(n,) the devices that state it"""
    true: Mask
    """(n,) the devices for which it is true"""


class Conflict(NamedTuple):
    """Devices that exclude others of their place: each of `by` excludes each other one of `against`."""

    by: Mask
    """(n,)"""
    against: Mask
    """(n,)"""


class JudgedPairs(Struct, frozen=True):
    """What decides which of n devices are judged together."""

    place: Codes
    """(n,) code of the place"""
    sets: Codes
    """(n, k) counter sets, -1 for none"""
    everywhere: bool
    """Whether all pairs of a place are judged"""

    @property
    def alone(self) -> Mask:
        """(n,) draws from no counter set"""
        found: Mask = np.all(self.sets < 0, axis=1)
        return found

    def with_any(self, by: Mask) -> Mask:
        """(n,) devices that are judged by the expression of one of the devices `by`."""
        found: Mask = np.isin(self.place, self.place[by if self.everywhere else by & self.alone])
        if not self.everywhere:
            shared = self.sets[by]
            found |= np.isin(self.place, self.place[by]) & self.alone
            found |= np.isin(self.sets, shared[shared >= 0]).any(axis=1)
        return found & ~by if np.count_nonzero(by) == 1 else found


def judged_pairs(blocks: Sequence[Block], counters: PoolCounters, *, everywhere: bool) -> JudgedPairs:
    """The judged pairs of the devices of a pool. Two draws of a device from one set count once."""
    drawn = counters.of_device
    sets = drawn.copy()
    for k in range(1, drawn.shape[1]):
        sets[(drawn[:, :k] == drawn[:, k : k + 1]).any(axis=1), k] = -1
    return JudgedPairs(_place_of(blocks), sets, everywhere)


def _place_of(blocks: Sequence[Block]) -> Codes:
    """(n,) the place of each device, as a code."""
    nodes = np.concatenate([block.column("node") for block in blocks])
    if (nodes < 0).any():  # a device of no single node may be used beside any other
        nodes = np.zeros_like(nodes)
    generations = np.repeat([block.generation for block in blocks], [len(block.names) for block in blocks])
    _, place = np.unique(np.stack([generations, nodes]), axis=1, return_inverse=True)
    return place.reshape(-1).astype(np.int32)


def conflicts_apart(stated: Sequence[Statement], pairs: JudgedPairs) -> list[Conflict]:
    """The conflicts among pairs that are judged although they share no counter set."""
    found = (conflict for one in stated for conflict in _conflicts(one, pairs))
    return [conflict for conflict in found if conflict.by.any() and conflict.against.any()]


def _conflicts(one: Statement, pairs: JudgedPairs) -> Iterator[Conflict]:
    if pairs.everywhere:
        yield Conflict(one.by, ~one.true)
    else:
        alone = pairs.alone
        yield Conflict(one.by & alone, ~one.true)
        yield Conflict(one.by & ~alone, ~one.true & alone)


def scopes_apart(conflicts: Sequence[Conflict], place: Codes) -> Codes:
    """(n,) numbers of the scopes of these conflicts; -1 for devices without any.

    The devices of one conflict in one place are connected: each of `by` is joined to each of `against`.
    """
    count = len(place)
    label, linked = np.arange(count), np.zeros(count, dtype=np.bool_)
    places = int(place.max(initial=-1)) + 1
    for by, against in conflicts:
        both = _places(places, place[by]) & _places(places, place[against])
        rows = np.flatnonzero((by | against) & both[place])
        least = np.full(places, count)
        np.minimum.at(least, place[rows], label[rows])
        new = np.arange(count)
        new[label[rows]] = least[place[rows]]
        label = new[label]
        linked[rows] = True
    numbers = np.full(count, -1, dtype=np.int32)
    _, numbers[linked] = np.unique(label[linked], return_inverse=True)
    return numbers


def _places(size: int, found: Codes) -> Mask:
    """(size,) the places that occur."""
    mask = np.zeros(size, dtype=np.bool_)
    mask[found] = True
    return mask
