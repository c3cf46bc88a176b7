"""How many devices each node reaches, and which can be used at all: their pool is complete and valid, and a
node reaches them.

Everything that counts devices asks here, so that it counts what a decision could give. Array work over all
considered nodes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.api.objects.semantics import Semantics
from reconciler.errors import Rejected
from reconciler.state.caches import Cache, derived, share
from reconciler.state.devices.pool import Pool, Usable, Verdict, unclear_places
from reconciler.state.devices.reach import SKIP_OPERATIONS, NodeInfo, Reach
from reconciler.state.devices.snapshot import Topology


class NodeReach:
    """N considered nodes and the D devices of a fleet. No method loops over devices."""

    def __init__(self, topology: Topology, nodes: Iterable[str] | None) -> None:
        """`nodes` are the considered nodes; None means all."""
        fleet = topology.fleet
        chosen = None if nodes is None else set(nodes)
        at = [n for n, name in enumerate(topology.order) if chosen is None or name in chosen]
        self.names: tuple[str, ...] = tuple(topology.order[n] for n in at)
        self.chosen = None if nodes is None else self.names
        """The considered nodes; None means all"""
        self._node = fleet.codes["node"]
        self._selector = fleet.codes["selector"]
        self._anywhere = fleet.anywhere
        self._codes = topology.order_codes[at]
        """(N,) codes of the nodes; negative for nodes that no device names"""
        self.code_count = self._local = len(fleet.vocabulary.nodes.values)
        """Number of node codes in the fleet"""
        self._selectors = len(fleet.vocabulary.selectors.values)
        self._pairs = self._selected(topology, np.array(at, dtype=np.int64))
        operations = fleet.codes["operations"] >= 0
        self._special: Mask | None = operations if operations.any() else None
        """(D,) devices that only nodes with a feature can use"""
        features = [topology.nodes[name].features for name in self.names] if operations.any() else []
        self._featured = np.array([SKIP_OPERATIONS in one for one in features], dtype=np.bool_)

    def _selected(self, topology: Topology, at: Amounts) -> tuple[Amounts, Codes]:
        """(M,) nodes and (M,) codes of selectors: all pairs that match."""
        if not (self._selector >= 0).any():
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
        selected, codes = topology.selected.pairs
        position = np.full(len(topology.order), -1, dtype=np.int64)
        position[at] = np.arange(len(at))
        considered = position[selected] >= 0
        return position[selected][considered], codes[considered]

    def counts(self, rows: Rows) -> Amounts:
        """(N,) how many of some devices, by their rows (n,) in the fleet, each node reaches."""
        if self._special is None:
            return self._counts(rows)
        special = self._special[rows]
        return self._counts(rows[~special]) + np.where(self._featured, self._counts(rows[special]), 0)

    def _counts(self, rows: Rows) -> Amounts:
        local = np.bincount(self._node[rows] + 1, minlength=self._local + 1)
        local[0] = np.count_nonzero(self._anywhere[rows])
        found = local[0] + np.where(self._codes >= 0, local[self._codes + 1], 0)
        nodes, codes = self._pairs
        if len(nodes):
            selectors = self._selector[rows]
            selected = np.bincount(selectors[selectors >= 0], minlength=self._selectors)
            np.add.at(found, nodes, selected[codes])
        return found

    @cached_property
    def everything(self) -> Mask:
        """(D,) devices that at least one node reaches."""
        return self.reached()

    def reached(self, nodes: Mask | None = None) -> Mask:
        """(D,) devices that at least one of `nodes` (N,) reaches; None means all N."""
        chosen = np.ones(len(self.names), dtype=np.bool_) if nodes is None else nodes
        found = self._reached(chosen)
        if self._special is not None:
            found = np.where(self._special, self._reached(chosen & self._featured), found)
        return found

    def _reached(self, chosen: Mask) -> Mask:
        known = np.zeros(self._local + 1, dtype=np.bool_)
        known[self._codes[chosen & (self._codes >= 0)]] = True  # the last entry is for code -1
        found = known[self._node]
        if chosen.any():
            found = found | self._anywhere
        nodes, codes = self._pairs
        if len(nodes):
            matched = np.zeros(self._selectors + 1, dtype=np.bool_)
            matched[codes[chosen[nodes]]] = True
            found = found | matched[self._selector]
        return found

    def by_code(self, values: np.ndarray, otherwise: int) -> Amounts:
        """(N,) `values` are given by node code; `otherwise` is for nodes that no device names."""
        if not len(values):
            return np.full(len(self.names), otherwise, dtype=np.int64)
        return np.where(self._codes >= 0, values[np.maximum(self._codes, 0)], otherwise)

    def code_of(self, number: int) -> int:
        """The code of a node; negative if no device names it."""
        return int(self._codes[number])

    def at(self, number: int) -> Mask:
        """(D,) devices that one node reaches."""
        chosen = np.zeros(len(self.names), dtype=np.bool_)
        chosen[number] = True
        return self.reached(chosen)

    def local(self, mask: Mask) -> bool:
        """Whether each device of `mask` (D,) names one node."""
        return bool((self._node[mask] >= 0).all())


class Readiness(Struct, frozen=True):
    """The state of all pools for some nodes."""

    ready: Mask
    """(D,) a node that sees the device's slice can use the pool"""
    usable: Mask
    """(D,) where pools are broken: such a node reaches the device"""
    problems: Mapping[int, str]
    """Position of a pool -> why not all of its devices are ready"""


def readiness(topology: Topology, nodes: Sequence[str] | None = None) -> Readiness:
    """The state of the pools for some nodes; None is all. Only broken pools are asked node by node."""
    return _OF_ALL.of(topology) if nodes is None else _readiness(topology, nodes)


def _readiness(topology: Topology, nodes: Sequence[str]) -> Readiness:
    fleet, rules = topology.fleet, topology.rules
    ready, usable, problems = *np.ones((2, fleet.size), dtype=np.bool_), dict[int, str]()
    for at, pool in enumerate(fleet.pools):
        if not pool.is_ready_everywhere(rules):
            rows = slice(int(fleet.start[at]), int(fleet.start[at + 1]))
            seeing = _seeing(pool, topology, nodes)
            problem = _ask(pool, seeing, rules, ready[rows], usable[rows])
            if problem:
                problems[at] = problem
    ready.setflags(write=False)
    usable.setflags(write=False)
    return Readiness(ready, usable, problems)


_OF_ALL: Cache[Topology, Readiness] = Cache(lambda of: _readiness(of, of.order), on_fork=share)


def _seeing(pool: Pool, topology: Topology, nodes: Sequence[str]) -> Iterator[Reach]:
    """The nodes that may see a pool. A node that slices name is asked even if there is no such node."""
    infos: Iterable[NodeInfo] = (topology.nodes[name] for name in nodes)
    if pool.nodes is not None and not (topology.rules.old and pool.counters.sets):
        named = set(nodes).intersection(pool.nodes) or pool.nodes
        infos = (topology.nodes.get(name) or NodeInfo(name, {}) for name in sorted(named))
    return (Reach(info, topology.fleet.vocabulary) for info in infos)


def _ask(pool: Pool, nodes: Iterable[Reach], rules: Semantics, ready: Mask, usable: Mask) -> str:
    """Write the masks (n,) of a pool. Returns the first problem where not all devices are ready."""
    ready[:] = usable[:] = False
    problems = dict.fromkeys(filter(None, map(unclear_places, pool.blocks)))
    unclear = bool(problems)
    verdicts: dict[tuple[int, ...], Verdict] = {}
    for node in nodes:
        try:
            relevant = tuple(pool.reached_by(node, rules)[0])
        except Rejected as rejected:  # the error of the node (NM-1)
            problems[str(rejected)] = None
            continue
        if not relevant:
            continue
        verdict = verdicts.get(relevant)
        if verdict is None:
            verdict = verdicts[relevant] = pool.verdict(relevant, rules)
            problems[verdict.problem] = None
        for at in verdict.current if verdict.usable is Usable.YES else ():
            rows = slice(pool.offsets.item(at), pool.offsets.item(at + 1))
            usable[rows] |= node.devices(pool.blocks[at])
            ready[rows] = True
    if not verdicts:  # no node sees the pool: it is judged as if one saw all of it
        verdict = pool.verdict(range(len(pool.blocks)), rules)
        problems[verdict.problem] = None
        ready[:] = verdict.usable is Usable.YES
    if unclear:
        ready[:] = usable
    return "" if ready.all() else next(filter(None, problems), "a newer generation is published")


@derived
def offered(topology: Topology) -> Mask:
    """(D,) devices that a node could use if nothing held them. Without any node, all ready ones."""
    state = readiness(topology)
    if not topology.nodes:
        return state.ready
    nodes = None
    if topology.fleet.vocabulary.selector_index.unreadable:  # nodes that need it give nothing (NM-1)
        nodes = [name for name in topology.order if _has_view(name, topology)]
    found = state.usable & NodeReach(topology, nodes).reached()
    found.setflags(write=False)
    return found


def _has_view(name: str, topology: Topology) -> bool:
    try:
        topology.view(name)
    except Rejected:
        return False
    return True
