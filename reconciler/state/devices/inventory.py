"""The slices of a fleet, encoded. Built into pools and joined to a fleet when one is asked for, or ahead."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from kernels.types import Amounts
from reconciler.api.objects.meta import PoolID
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import ResourceSlice
from reconciler.state.caches import Lazy
from reconciler.state.devices.encoding.block import COLUMNS, Block, build, split
from reconciler.state.devices.encoding.parts import Encoder, Header
from reconciler.state.devices.encoding.tables import join, places
from reconciler.state.devices.encoding.vocabulary import Interner, Vocabulary
from reconciler.state.devices.fleet import Fleet, Layout, assemble, lay_out
from reconciler.state.devices.ledger import Drawn
from reconciler.state.devices.pool import Pool, PoolBuilder
from reconciler.state.devices.reach import NodeInfo
from reconciler.state.devices.snapshot import Topology
from reconciler.state.devices.tainting import Tainting


def shed(
    blocks: Mapping[str, Block], vocabulary: Vocabulary, rules: Semantics
) -> tuple[Encoder, dict[str, Block]]:
    """An encoder with only the values in use, and the blocks re-encoded with it.

    Existing snapshots keep their codes and their vocabulary.
    """
    table = join([*blocks.values()])
    kept = vocabulary.without_values()
    for row, (old, new) in enumerate(_interners(table.header, vocabulary, kept)):
        if old is not new:
            table.codes[row] = _recoded(table.codes[row], old, new)
    encoder = Encoder(kept, rules)
    recoded: dict[str, Block] = {}
    start = 0
    for name, block in blocks.items():
        stop = start + len(block.names)
        own = table.codes[places(block.header, table.header), start:stop]
        first, steps = split(own)
        recoded[name] = replace(
            block, header=encoder.header(block.header), first=first, steps=encoder.shared(steps)
        )
        start = stop
    return encoder, recoded


def _interners(
    header: Header, vocabulary: Vocabulary, kept: Vocabulary
) -> Iterator[tuple[Interner[Any], Interner[Any]]]:
    """The old and the new interner of each row of a table."""
    for column in COLUMNS:
        yield vocabulary.of_column(column), kept.of_column(column)
    for name in header.attributes:
        yield vocabulary.attribute(name), kept.attribute(name)
    for name in header.capacity:
        yield vocabulary.amount(name), kept.amount(name)


def _recoded(codes: np.ndarray[Any, Any], old: Interner[Any], new: Interner[Any]) -> np.ndarray[Any, Any]:
    """(n,) the same values in the codes of a new interner, which is filled with them."""
    used = np.zeros(len(old.values) + 1, dtype=np.bool_)
    used[codes] = True  # the last place is for code -1
    codes_of = np.full(used.shape, -1, dtype=np.int32)
    for code in np.flatnonzero(used[:-1]).tolist():
        codes_of[code] = new.code(old.values[code], old.keys[code])
    return codes_of[codes]


class StatingDrivers:
    """Follows the slices whose devices have expressions, also those of pools that other shards own."""

    def __init__(self) -> None:
        self._driver_of: dict[str, str] = {}
        """Slice -> its driver; only slices with expressions"""
        self._slices: Counter[str] = Counter()

    def __contains__(self, driver: str) -> bool:
        return self._slices[driver] > 0

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Slices with expressions, and their drivers."""
        return iter(self._driver_of.items())

    def note(self, name: str, driver: str) -> set[str]:
        """Note the driver of a slice with expressions; empty if it has none, or no longer exists.

        Returns the drivers that now have such slices but did not before, or the other way round.
        """
        before = self._driver_of.pop(name, "")
        if before == driver:
            if driver:
                self._driver_of[name] = driver
            return set()
        changed: set[str] = set()
        if before:
            self._slices[before] -= 1
            if not self._slices[before]:
                del self._slices[before]
                changed.add(before)
        if driver:
            self._driver_of[name] = driver
            self._slices[driver] += 1
            if self._slices[driver] == 1:
                changed.add(driver)
        return changed


SPARE_VALUES = 1 << 18
"""Unused values that a vocabulary may hold before it is replaced. A value takes about 200 bytes."""
SPARE_FACTOR = 3
"""The same limit as a multiple of the values in use. Replacing the vocabulary rebuilds all columns."""

MANY_POOLS = 1 << 10
"""Changed pools from which on a fleet is assembled ahead, in a thread: it takes ten milliseconds or more."""
MANY_DEVICES = 1 << 14
"""Devices from which on this is so for the first fleet, also if they are in few pools"""


class Assembled(NamedTuple):
    """The fleet of one moment, with its nodes."""

    topology: Topology
    layout: Layout


class Assembly(Struct, frozen=True, eq=False):
    """All that a fleet is made of at one moment. Nothing of it changes, but the vocabulary grows."""

    pools: Mapping[PoolID, Pool]
    fresh: AbstractSet[PoolID]
    """Pools that were built or removed since the previous fleet"""
    previous: Fleet | None
    vocabulary: Vocabulary
    matrix: Amounts
    """(P, C) all draws"""
    topology: Topology | None
    """That of the previous fleet"""
    nodes: Mapping[str, NodeInfo]
    rules: Semantics

    def run(self) -> Assembled:
        """The fleet, without taint rules."""
        layout = lay_out(self.pools, self.fresh, self.previous)
        fleet = assemble(layout, (), self.vocabulary, self.matrix)
        topology = Topology.of(
            fleet, self.nodes, self.rules, previous=self.topology, replaced=layout.replaced
        )
        return Assembled(topology, layout)


class Inventory:
    """The slices, the pools that were built of them, and the fleet that was joined of those."""

    def __init__(
        self, rules: Semantics, retained: Callable[[PoolID], Mapping[str, Drawn]], fleet: Fleet | None = None
    ) -> None:
        """`retained` has what held devices of a pool drew before its slices changed. `fleet` is for a store
        whose slices never change.
        """
        self._rules = rules
        self._retained = retained
        self._encoder = Encoder(Vocabulary(), rules)
        self._builder = PoolBuilder(self._encoder, rules)
        self._most_values = SPARE_VALUES
        self._blocks: dict[str, Block] = {}
        self._members: dict[PoolID, dict[str, Block]] = {}
        self._pools: dict[PoolID, Pool] = {}
        self._built: set[PoolID] = set()
        """Pools that changed since the fleet was joined, and were built or removed since"""
        self._joining: AbstractSet[PoolID] = frozenset()
        """Those that had changed when a thread began to join a fleet. It reads this set: only replace it"""
        self._unbuilt: dict[PoolID, None] = {}
        """Pools to build before the next fleet, ordered: pools that were listed by name are sorted faster"""
        self._stating = StatingDrivers()
        self._fleet = fleet
        self._tainted_by: Sequence[Tainting] = ()

    # -- reading

    @property
    def vocabulary(self) -> Vocabulary:
        """The codes of all strings."""
        return self._encoder.vocabulary

    @property
    def all_blocks(self) -> Collection[Block]:
        """All slices, encoded."""
        return self._blocks.values()

    @property
    def slices(self) -> Sequence[ResourceSlice]:
        """All slices. Each is decoded when it is asked for, which any thread may do later."""
        return Lazy(tuple(self._blocks.values()), Block.source)

    @property
    def names(self) -> Iterable[str]:
        """Names of all slices, also of those of other shards that say `compatibleOnlyWith`."""
        return {**self._blocks, **dict(self._stating)}

    @property
    def stating_elsewhere(self) -> tuple[tuple[str, str], ...]:
        """(name, driver) of slices of other shards whose devices say `compatibleOnlyWith`."""
        return tuple((name, driver) for name, driver in self._stating if name not in self._blocks)

    def known(self, name: str) -> Block | None:
        """The slice of a name, encoded."""
        return self._blocks.get(name)

    def blocks(self, pool: PoolID) -> Collection[Block]:
        """The encoded slices of a pool."""
        return self._members.get(pool, {}).values()

    # -- changing

    def encoded(self, source: ResourceSlice) -> Block:
        """The block of a slice, for `put`. Adds new values to the vocabulary."""
        return build(source, self._encoder)

    def put(self, block: Block) -> None:
        """Add a slice, or put it in the place of the one with its name."""
        known = self._blocks.get(block.name)
        if known is not None:
            self._has_changed(known.pool)
            self._members[known.pool].pop(block.name)
        self._blocks[block.name] = block
        self._members.setdefault(block.pool, {})[block.name] = block
        self._has_changed(block.pool)
        self.note_stating(block.name, block.pool.driver if block.states else "")

    def drop(self, name: str) -> None:
        """Remove a slice that is known."""
        pool = self._blocks.pop(name).pool
        self._members[pool].pop(name)
        self._has_changed(pool)

    def note_stating(self, name: str, driver: str) -> bool:
        """Note the driver of a slice with expressions, and whether pools have to be built again for it.

        These are the pools whose groups are compared anew.
        """
        changed = self._stating.note(name, driver)
        stale = {
            pool
            for one in changed
            if self._rules.explicit_group_mode(one) is None
            for pool, members in self._members.items()
            if pool.driver == one and any(block.exclusive for block in members.values())
        }
        for pool in stale:
            self._has_changed(pool)
        return bool(stale)

    def _has_changed(self, pool: PoolID) -> None:
        """Build a pool before the next fleet, afresh even if it soon is as it was: by then held devices may
        have drawn from other slices, which counts too.
        """
        self._unbuilt[pool] = None

    # -- joining

    def fleet(self, taint_rules: Sequence[Tainting]) -> tuple[Fleet, Layout | None]:
        """The fleet, and its layout if it is new. Only pools whose slices changed are rebuilt."""
        tainted_alike = taint_rules == self._tainted_by
        self._stop_joining()
        if self._fleet is not None and not (self._built or self._unbuilt) and tainted_alike:
            return self._fleet, None
        if self.vocabulary.size > self._most_values:
            self._shed_values()
        for pool in self._unbuilt:
            self._build(pool)
        self._unbuilt.clear()
        layout = lay_out(self._pools, self._built, self._fleet if tainted_alike else None)
        self._built.clear()
        self._fleet = assemble(layout, taint_rules, self.vocabulary, self._builder.table.matrix())
        self._tainted_by = taint_rules
        return self._fleet, layout

    def assembly(self, topology: Topology | None, nodes: Mapping[str, NodeInfo]) -> Assembly | None:
        """What to join in a thread, if that takes long and every pool is built; else None.

        `topology` is the newest one.
        """
        self._stop_joining()
        if self._unbuilt or self._tainted_by or not self._takes_long():
            return None
        if self.vocabulary.size > self._most_values:
            if self._fleet is not None:
                return None  # all columns may have to be encoded again
            self._shed_values()  # no fleet: only sets the limit
        self._joining, self._built = self._built, set()
        return Assembly(
            dict(self._pools),
            self._joining,
            self._fleet,
            self.vocabulary,
            self._builder.table.matrix(),
            topology if self._fleet is not None else None,
            nodes,
            self._rules,
        )

    def _takes_long(self) -> bool:
        """Whether to join a fleet takes so long that the event loop should do other things meanwhile."""
        if len(self._built) >= MANY_POOLS:
            return True
        # Later fleets share most columns with the one before.
        return self._fleet is None and sum(pool.size for pool in self._pools.values()) >= MANY_DEVICES

    def adopt(self, fleet: Fleet, layout: Layout) -> bool:
        """Take over a fleet without taint rules that was joined elsewhere, unless `fleet` was faster.

        What changed meanwhile stays to be done.
        """
        if self._fleet is not layout.previous or fleet.vocabulary is not self.vocabulary:
            return False
        self._joining = frozenset()
        self._fleet, self._tainted_by = fleet, ()
        return True

    def _stop_joining(self) -> None:
        """Count what a thread is joining as changed again: its fleet will not be adopted."""
        if self._joining:
            self._built |= self._joining
            self._joining = frozenset()

    @property
    def unbuilt(self) -> bool:
        """Whether pools have to be built before the next fleet."""
        return bool(self._unbuilt)

    def build_ahead(self, pools: int) -> bool:
        """Do part of the work of the next fleet: build at most so many changed pools; return whether any was.

        If a pool changes again, what was built of it is dropped.
        """
        built = min(pools, len(self._unbuilt))
        for _ in range(built):
            self._build(self._unbuilt.popitem()[0])
        return built > 0

    def _shed_values(self) -> None:
        """Replace the vocabulary if slices use few of its values."""
        in_use = self.vocabulary.size if self._fleet is None else self._fleet.values_in_use
        if self.vocabulary.size > SPARE_VALUES + (1 + SPARE_FACTOR) * in_use:
            self._encoder, self._blocks = shed(self._blocks, self.vocabulary, self._rules)
            for name, block in self._blocks.items():
                self._members[block.pool][name] = block
            self._builder.adopt(self._encoder)
            self._unbuilt.update(dict.fromkeys(self._members))
            self._fleet = None
            in_use = self.vocabulary.size
        self._most_values = SPARE_VALUES + (1 + SPARE_FACTOR) * in_use

    def _build(self, pool: PoolID) -> None:
        members = self._members.get(pool)
        if members:
            mode = self._rules.group_mode(pool.driver, states=pool.driver in self._stating)
            self._pools[pool] = self._builder.build(pool, members.values(), self._retained(pool), mode)
        else:
            self._members.pop(pool, None)
            self._pools.pop(pool, None)
        self._built.add(pool)
