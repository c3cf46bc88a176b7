"""A pool: its ordered slices, and which devices a node can use. Source: docs/reference/rules/pools.md."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kernels.groups import Inverse, constant_mask, invert, row_range
from kernels.types import Codes, Mask, Rows
from reconciler.api.objects.meta import PoolID
from reconciler.api.objects.semantics import PARTITIONABLE_DEVICES, GroupMode, Semantics
from reconciler.state.caches import Recent
from reconciler.state.devices.counters import DrawTable, PoolCounters, compile_counters
from reconciler.state.devices.encoding.block import Block
from reconciler.state.devices.encoding.parts import Encoder, Names
from reconciler.state.devices.exclusion_rules import PoolExclusion, compile_exclusion
from reconciler.state.devices.ledger import Drawn, finer_than
from reconciler.state.devices.reach import Reach, needs_gate


class AskedBlocks:
    """The slices of one pool and their D devices, by the nodes and node selectors that they name.

    Slices that name nodes device by device concern whom their devices name. All others are asked.
    """

    def __init__(self, blocks: Sequence[Block], offsets: Rows, rules: Semantics) -> None:
        """`offsets` (slices + 1,) is the first device of each slice."""
        self._blocks, self._offsets, self._rules = blocks, offsets, rules
        self._of = np.repeat(np.arange(len(blocks)), np.diff(offsets))
        """(D,) the position of each device's slice"""
        looked_up = self._looked_up()
        self._others: list[int] = np.flatnonzero(~looked_up).tolist()
        if not rules.has(PARTITIONABLE_DEVICES):
            looked_up[:] = False  # such slices concern nobody
        self._by_node = self._inverted("node", looked_up)
        self._by_selector = self._inverted("selector", looked_up)

    def _looked_up(self) -> Mask:
        """(slices,) those that name nodes by device only."""
        found = np.array([_by_device_only(block, self._rules) for block in self._blocks], dtype=np.bool_)
        anywhere = np.concatenate([block.anywhere for block in self._blocks])
        found[self._of[anywhere]] = False
        return found

    def _inverted(self, name: str, looked_up: Mask) -> Inverse:
        codes: Codes = np.concatenate([block.column(name) for block in self._blocks])
        codes = np.where(looked_up[self._of], codes, -1)
        return invert(codes, int(codes.max(initial=-1)) + 1)

    def by(self, node: Reach) -> tuple[Sequence[int], Mask]:
        """Positions of the slices that concern a node, rising; and (D,) devices of those that it reaches.

        Needs all selectors to be readable.
        """
        devices = np.zeros(len(self._of), dtype=np.bool_)
        blocks = np.zeros(len(self._blocks), dtype=np.bool_)
        for index, codes in ((self._by_selector, node.codes), (self._by_node, (node.node_code,))):
            size = len(index.start) - 1  # later selectors, and nodes that no device names, have no place here
            known = [code for code in codes if 0 <= code < size]
            if known:
                rows, _ = index.of_each(np.array(known, dtype=np.intp))
                devices[rows] = True
                blocks[self._of[rows]] = True
        for at in self._others:
            if node.concerns(self._blocks[at], self._rules):
                blocks[at] = True
                devices[self._offsets[at] : self._offsets[at + 1]] = node.devices(self._blocks[at])
        return np.flatnonzero(blocks).tolist(), devices


def _by_device_only(block: Block, rules: Semantics) -> bool:
    return bool(block.per_device_node_selection) and not (
        block.node_name
        or block.all_nodes
        or block.selector >= 0
        or (rules.old and block.shares_counters)  # concerns all nodes
    )


KEPT = 1 << 10
"""Most machine types that are cached."""


FEW_BLOCKS = 4
"""Slices up to which asking each is faster than looking them up"""


class Usable(Enum):
    """Whether a node can use a pool."""

    YES = "usable"
    INCOMPLETE = "incomplete"
    INVALID = "invalid"


class PoolOnNode(Struct, frozen=True):
    """A pool as one node sees it."""

    pool: PoolID
    usable: Usable
    problem: str
    """Why it is incomplete or invalid; empty if usable."""
    rows: Rows = np.zeros(0, np.intp)
    """(n,) devices of the slices that target the node, as positions in the pool, in first-fit order"""
    span: slice | None = None
    """The same positions as a range, if they are contiguous"""
    here: Mask = np.zeros(0, np.bool_)
    """(n,) whether the node reaches the device itself"""
    whole: bool = False
    """Whether it reaches all of them because all slices of the pool name it alone"""
    has_binding_conditions: bool = False
    """Whether a device has binding conditions. Such pools are tried last (POOL-14)."""


class Generation(NamedTuple):
    """The slices of one generation of a pool."""

    published: int
    counts: tuple[int, ...]
    """What they say of their number, each value once, rising"""


@lru_cache
def _generations(slices: tuple[tuple[int, int], ...]) -> Mapping[int, Generation]:
    """The generations among slices, given by (generation, count). Most pools have one slice, of the same."""
    found: dict[int, list[int]] = {}
    for generation, count in slices:
        found.setdefault(generation, []).append(count)
    return {at: Generation(len(counts), tuple(sorted({*counts}))) for at, counts in found.items()}


class Verdict(NamedTuple):
    """Whether the slices that concern a node can be used."""

    usable: Usable | None
    """None if the pool does not exist for the node"""
    problem: str
    """Why not; empty if usable"""
    current: Sequence[int]
    """Positions of the slices of the generation that counts"""


class Pool:
    """All slices of one (driver, pool name), sorted by slice name (POOL-9). Immutable once built."""

    __slots__ = (
        "_asked",
        "_binding",
        "_generations",
        "_named",
        "_on_only",
        "_per_device",
        "blocks",
        "counters",
        "exclusion",
        "id",
        "nodes",
        "offsets",
        "positions",
        "size",
        "with_affinity",
    )

    def __init__(
        self,
        pool: PoolID,
        blocks: tuple[Block, ...],
        named: Names,
        offsets: Rows,
        counters: PoolCounters,
        exclusion: PoolExclusion | None,
    ) -> None:
        self.id = pool
        self.blocks = blocks
        self.counters = counters
        self.exclusion = exclusion
        self.offsets = offsets
        """(slices + 1,) first device of each slice"""
        self.size = int(offsets[-1])
        self.with_affinity = sorted({block.generation for block in blocks if block.affinity})
        """The generations whose slices have `sharingAffinity`"""
        nodes = tuple(dict.fromkeys([block.node_name for block in blocks]))
        self.nodes = None if "" in nodes else nodes
        """The nodes that can see this pool; None if selectors decide"""
        self._named = named
        self.positions = named.positions
        """Device name -> its positions: usually one, several if generations overlap or by mistake"""
        self._generations = _generations(tuple([(block.generation, block.slice_count) for block in blocks]))
        self._per_device = any(block.per_device_node_selection for block in blocks)
        self._binding = any(block.has_binding_conditions for block in blocks)
        self._asked: tuple[Semantics, AskedBlocks] | None = None
        """The rules, and an index of the slices by these"""
        self._on_only: tuple[Semantics, PoolOnNode | None] | None = None
        """The rules, and what `on` returns by them for the only node that the slices name"""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all devices."""
        return self._named.all

    def is_named_like(self, other: "Pool") -> bool:
        """Whether both have the same devices by name, in the same order."""
        return self._named is other._named or self.names == other.names

    @property
    def repeats_names(self) -> bool:
        """Whether two devices have one name: generations overlap, or by mistake."""
        return self._named.has_duplicates

    def rows_of(self, device: str) -> tuple[int, ...]:
        """Positions of a device name; see `positions`."""
        return self.positions.get(device, ())

    def on(self, node: Reach, rules: Semantics) -> PoolOnNode | None:
        """The pool as a node sees it; None if it does not exist there (POOL-3 to POOL-7, POOL-11).

        Raises Rejected if a needed node selector cannot be parsed (NM-1).
        """
        only = self.nodes is not None and self.nodes == (node.node.name,)
        if only and self._on_only is not None and self._on_only[0] is rules:
            return self._on_only[1]
        found = self._on(node, rules, only=only)
        if only and not self._per_device:
            self._on_only = rules, found  # nothing else of the node matters
        return found

    def _on(self, node: Reach, rules: Semantics, *, only: bool) -> PoolOnNode | None:
        """The same, computed. `only` is whether all slices name this node."""
        if only and rules.has(PARTITIONABLE_DEVICES):
            relevant: Sequence[int] = range(len(self.blocks))
            reached = None
        else:
            relevant, reached = self.reached_by(node, rules)
        usable, problem, current = self.verdict(relevant, rules)
        if usable is None:
            return None
        if usable is not Usable.YES:
            return PoolOnNode(self.id, usable, problem)
        return self._usable(current, node, reached, whole=only and not self._per_device)

    def verdict(self, relevant: Sequence[int], rules: Semantics) -> Verdict:
        """Whether a node can use the pool with its relevant slices at these positions (POOL-4 to POOL-12)."""
        if not relevant:
            return Verdict(None, "no slice is for the node", ())
        generation = max(self.blocks[at].generation for at in relevant)
        current = [at for at in relevant if self.blocks[at].generation == generation]
        published, counts = self._generations[generation]
        if len(current) != counts[0] or len(counts) > 1:
            newest = max(self._generations)
            if newest > generation:
                problem = f"generation {generation} is obsolete: generation {newest} is published"
                return Verdict(None, problem, current)
            if len(counts) > 1:
                numbers = " and ".join(map(str, counts))
                problem = f"slices of generation {generation} disagree about their number: {numbers}"
                return Verdict(Usable.INVALID, problem, current)
            if published != counts[0]:
                problem = f"{published} of {counts[0]} slices of generation {generation} are published"
                return Verdict(Usable.INCOMPLETE, problem, current)
        problem = self._invalid(current, generation, rules)
        return Verdict(Usable.INVALID if problem else Usable.YES, problem, current)

    def is_ready_everywhere(self, rules: Semantics) -> bool:
        """Whether every node that sees any slice of the pool can use it, which is the usual case."""
        (generation, (published, counts)), *others = self._generations.items()
        return (
            not others
            and counts == (published,)
            and not self.repeats_names
            and not (rules.has(PARTITIONABLE_DEVICES) and generation in self.counters.problems)
            and not any(unclear_places(block) or needs_gate(block, rules) for block in self.blocks)
        )

    def reached_by(self, node: Reach, rules: Semantics) -> tuple[Sequence[int], Mask | None]:
        """Positions of the slices that concern a node, rising; and (n,) its devices, if they are known."""
        if len(self.blocks) <= FEW_BLOCKS or node.may_fail:
            return [at for at, block in enumerate(self.blocks) if node.concerns(block, rules)], None
        if self._asked is None or self._asked[0] is not rules:
            self._asked = rules, AskedBlocks(self.blocks, self.offsets, rules)
        return self._asked[1].by(node)

    def _invalid(self, current: Sequence[int], generation: int, rules: Semantics) -> str:
        if self.repeats_names:
            seen: set[str] = set()
            for at in current:
                for name in self.blocks[at].names:
                    if name in seen:
                        return f"two devices are named {name}"
                    seen.add(name)
        if rules.has(PARTITIONABLE_DEVICES):
            return self.counters.problems.get(generation, "")
        return ""

    def _usable(
        self, current: Sequence[int], node: Reach, reached: Mask | None, *, whole: bool
    ) -> PoolOnNode:
        span = None
        if current[-1] - current[0] + 1 == len(current):
            span = slice(self.offsets.item(current[0]), self.offsets.item(current[-1] + 1))
            rows = row_range(span.start, span.stop)
        else:
            rows = np.concatenate(
                [row_range(self.offsets.item(at), self.offsets.item(at + 1)) for at in current]
            )
        if whole:
            here = constant_mask(len(rows), yes=True)
        elif reached is not None:
            here = reached[rows]
        else:
            here = np.concatenate([node.devices(self.blocks[at]) for at in current])
        return PoolOnNode(
            pool=self.id,
            usable=Usable.YES,
            problem="",
            rows=rows,
            span=span,
            here=here,
            whole=whole,
            has_binding_conditions=self._binding
            and any(self.blocks[at].has_binding_conditions for at in current),
        )


def unclear_places(block: Block) -> str:
    """What is wrong with a slice that selects nodes in two ways, which the API server refuses."""
    set_, each = block.node_name != "", bool(block.per_device_node_selection)
    if set_ + block.all_nodes + (block.selector >= 0) + each < 2:
        return ""
    given = [
        name
        for name, is_set in (
            ("nodeName", set_),
            ("allNodes", block.all_nodes),
            ("nodeSelector", block.selector >= 0),
            ("perDeviceNodeSelection", each),
        )
        if is_set
    ]
    return f"the node selection of slice {block.name} is invalid: set only one of {', '.join(given)}"


class PoolBuilder:
    """Builds pools. Pools of identical machines share what they have in common."""

    def __init__(self, encoder: Encoder, rules: Semantics) -> None:
        self.table = DrawTable()
        self._encoder = encoder
        self._rules = rules
        self._counters: Recent[Hashable, PoolCounters] = Recent(KEPT)
        self._offsets: Recent[tuple[int, ...], Rows] = Recent(KEPT)

    def adopt(self, encoder: Encoder) -> None:
        """Use a new encoder from now on."""
        self._encoder = encoder

    def build(
        self, pool: PoolID, members: Iterable[Block], retained: Mapping[str, Drawn], mode: GroupMode
    ) -> Pool:
        """The pool of some slices, in any order. `retained` are the retained draws of its held devices."""
        blocks = tuple(members)
        if len(blocks) > 1:
            blocks = tuple(sorted(blocks, key=lambda block: block.name.encode()))
        named = blocks[0].named
        if len(blocks) > 1:
            named = self._encoder.names(tuple([name for block in blocks for name in block.names]))
        counters = self._counters_of(blocks)
        finer = finer_than(counters, retained) if retained else None
        if finer:
            exact = compile_counters(blocks, self._encoder.vocabulary, self.table, finer)
            if exact.problems == counters.problems:
                counters = exact
        exclusion = compile_exclusion(pool, blocks, counters, self._encoder.vocabulary, self._rules, mode)
        sizes = tuple([len(block.names) for block in blocks])
        offsets = self._offsets.of(sizes, lambda: np.cumsum((0, *sizes), dtype=np.intp))
        return Pool(pool, blocks, named, offsets, counters, exclusion)

    def _counters_of(self, blocks: tuple[Block, ...]) -> PoolCounters:
        alike = tuple([
            (block.generation, block.published, block.drawn.shape, block.drawn.tobytes(), block.asked)
            for block in blocks
        ])  # fmt: skip
        known = self._counters.get(alike)
        if known is None:
            known = compile_counters(blocks, self._encoder.vocabulary, self.table)
            if not known.problems:  # problems name slices
                self._counters.put(alike, known)
        return known
