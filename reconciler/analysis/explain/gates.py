"""The gates between a request and a device: each is a mask over the whole fleet, independent of the others.

The order is fixed: attributes of the device, state of its pool, allocations, and the nodes that reach it.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from msgspec import Struct

from kernels.fit import fits
from kernels.groups import distinct
from kernels.types import Amounts, Codes, Mask
from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.candidates import capacity_permits, not_excluded
from reconciler.allocation.dra.request_options import RequestOption, SelectorUse
from reconciler.allocation.dra.static_match import SKIP_OPERATIONS, disabled_features, resolve, taints_permit
from reconciler.allocation.reasons.explanation import Kind
from reconciler.api.objects.semantics import COMPATIBILITY_GROUPS, PARTITIONABLE_DEVICES
from reconciler.cel.program import CelRefused, compile_selector
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.snapshot import Snapshot


class NodeReach:
    """N considered nodes and the D devices of a fleet. No method loops over devices."""

    def __init__(self, snapshot: Snapshot, nodes: Iterable[str] | None) -> None:
        """`nodes` are the considered nodes; None means all."""
        topology, fleet = snapshot.topology, snapshot.fleet
        chosen = None if nodes is None else set(nodes)
        at = [n for n, name in enumerate(topology.order) if chosen is None or name in chosen]
        self.names: tuple[str, ...] = tuple(topology.order[n] for n in at)
        self._node = fleet.codes["node"]
        self._selector = fleet.codes["selector"]
        self._anywhere = fleet.anywhere
        self._codes = topology.order_codes[at]
        """(N,) codes of the nodes; negative for nodes that no device names"""
        self.code_count = self._local = len(fleet.vocabulary.nodes.values)
        """Number of node codes in the fleet"""
        self._selectors = len(fleet.vocabulary.selectors.values)
        self._pairs = self._selected(snapshot, np.array(at, dtype=np.int64))
        operations = fleet.codes["operations"] >= 0
        self._special: Mask | None = operations if operations.any() else None
        """(D,) devices that only nodes with a feature can use"""
        self._featured = np.array(
            [SKIP_OPERATIONS in topology.nodes[name].features for name in self.names], dtype=np.bool_
        )

    def _selected(self, snapshot: Snapshot, at: Amounts) -> tuple[Amounts, Codes]:
        """(M,) nodes and (M,) codes of selectors: all pairs that match."""
        if not (self._selector >= 0).any():
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
        selected, codes = snapshot.topology.selected()
        position = np.full(len(snapshot.topology.order), -1, dtype=np.int64)
        position[at] = np.arange(len(at))
        considered = position[selected] >= 0
        return position[selected][considered], codes[considered]

    def counts(self, mask: Mask) -> Amounts:
        """(N,) how many devices of `mask` (D,) each node reaches."""
        return self.table(mask.astype(np.int64), 2)[1]

    def table(self, kind: Amounts, kinds: int) -> Amounts:
        """(kinds, N) how many devices of each kind each node reaches.

        kind (D,)   of each device, 0 to kinds - 1
        """
        if self._special is None:
            return self._table(kind, kinds)
        plain = self._table(np.where(self._special, kinds, kind), kinds + 1)[:kinds]
        special = self._table(np.where(self._special, kind, kinds), kinds + 1)[:kinds]
        return plain + np.where(self._featured, special, 0)

    def _table(self, kind: Amounts, kinds: int) -> Amounts:
        wide = self._local + 1
        code = np.where(self._node >= 0, self._node, self._local)
        local = np.bincount(kind * wide + code, minlength=kinds * wide).reshape(kinds, wide)
        found = np.where(self._codes >= 0, local[:, np.maximum(self._codes, 0)], 0)
        found += np.bincount(kind[self._anywhere], minlength=kinds)[:, np.newaxis]
        nodes, codes = self._pairs
        if len(nodes):
            used = self._selector >= 0
            wide = self._selectors
            selected = np.bincount(kind[used] * wide + self._selector[used], minlength=kinds * wide)
            for number in range(kinds):
                np.add.at(found[number], nodes, selected.reshape(kinds, wide)[number, codes])
        return found

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


SELECTION = frozenset({Kind.CLASS, Kind.SELECTOR, Kind.FEATURE, Kind.POOL, Kind.CAPACITY, Kind.NODES})
"""Gates that select the devices of a request for all devices; the other gates test whether they are free."""


class Gate(Struct, frozen=True, eq=False):
    """A test of single devices."""

    kind: Kind
    about: str
    """The text for users, with the class or selector; unique among the gates of a request"""
    passed: Mask
    """(D,)"""
    error: Mask | None = None
    """(D,) the test fails with an error; disjoint from `passed`. None if there are no errors"""
    use: SelectorUse | None = None
    """The expression, if the gate is a selector"""


def gates_of(option: RequestOption, snapshot: Snapshot, reach: NodeReach) -> list[Gate]:
    """The gates of a request, in order. Gates in _RARE are left out if they stop no device."""
    return [
        gate for gate in _gates(option, snapshot, reach) if gate.kind not in _RARE or not gate.passed.all()
    ]


_RARE = frozenset({Kind.FEATURE, Kind.POOL, Kind.GROUPS})


def _gates(option: RequestOption, snapshot: Snapshot, reach: NodeReach) -> Iterator[Gate]:
    fleet, occupancy = snapshot.fleet, snapshot.occupancy
    rows = np.arange(fleet.size)
    of_class = len(option.device_class.spec.selectors)
    yield _class(option, option.selectors[:of_class], fleet)
    for number, use in enumerate(option.selectors[of_class:]):
        passed, error = _answers(use, fleet)
        yield Gate(Kind.SELECTOR, f"selector #{number}", passed, error, use)
    yield Gate(Kind.FEATURE, "enabled features", _supported(snapshot))
    yield Gate(Kind.POOL, "complete and valid pools", ready(snapshot))
    yield Gate(Kind.TAINTS, "tolerated taints", taints_permit(option, rows, snapshot))
    yield Gate(Kind.HELD, "not held by other claims", ~occupancy.held | option.admin)
    yield _capacity(option, snapshot)
    yield Gate(Kind.COUNTERS, "counters", _counters(snapshot))
    yield Gate(
        Kind.GROUPS, "not excluded by held devices", not_excluded(rows, snapshot) | _silenced(snapshot)
    )
    yield Gate(Kind.NODES, "reachable from considered nodes", reach.reached())


def _class(option: RequestOption, uses: Sequence[SelectorUse], fleet: Fleet) -> Gate:
    alive, failed = np.ones(fleet.size, dtype=np.bool_), np.zeros(fleet.size, dtype=np.bool_)
    for use in uses:
        passed, error = _answers(use, fleet)
        failed |= alive & error
        alive &= passed
    return Gate(Kind.CLASS, f"class {option.device_class.key.name}", alive, failed)


def _answers(use: SelectorUse, fleet: Fleet) -> tuple[Mask, Mask]:
    """(D,) where an expression is true, and where it fails: everywhere if it does not compile (SEL-3)."""
    try:
        masks = compile_selector(use.expression).masks(fleet.cel)
    except CelRefused:
        return np.zeros(fleet.size, dtype=np.bool_), np.ones(fleet.size, dtype=np.bool_)
    return masks.true, masks.error


def problem(use: SelectorUse, fleet: Fleet, row: int) -> str:
    """The error of an expression on a device where it fails."""
    try:
        return compile_selector(use.expression).explain(fleet.cel, row)
    except CelRefused as refused:
        return str(refused)


def _supported(snapshot: Snapshot) -> Mask:
    """(D,) devices that need no disabled feature (SEL-1, POOL-2, GRP-7)."""
    passed = np.ones(snapshot.fleet.size, dtype=np.bool_)
    for gate, needing in disabled_features(snapshot.topology).items():
        # Further shares of a device with groups are not tested (GRP-5).
        passed &= ~needing | (snapshot.occupancy.sharing if gate == COMPATIBILITY_GROUPS else False)
    return passed


def _silenced(snapshot: Snapshot) -> Mask:
    """(D,) devices with groups while their gate is off: not what is held excludes them."""
    silenced = disabled_features(snapshot.topology).get(COMPATIBILITY_GROUPS)
    return np.zeros(snapshot.fleet.size, dtype=np.bool_) if silenced is None else silenced


def ready(snapshot: Snapshot) -> Mask:
    """(D,) devices of pools that are complete and valid according to their slices."""
    pieces = [pool.offered(snapshot.rules) for pool in snapshot.fleet.pools]
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.bool_)


def _capacity(option: RequestOption, snapshot: Snapshot) -> Gate:
    """An amount that cannot be represented is an error on each device with that request policy."""
    shape = snapshot.fleet.codes["shape"]
    passed = capacity_permits(option, np.arange(snapshot.fleet.size), snapshot)
    resolved = resolve(option, distinct(shape).tolist(), snapshot)
    error = np.isin(shape, [code for code, taken in resolved.items() if isinstance(taken, Fatal)])
    return Gate(Kind.CAPACITY, "capacity", passed & ~error, error)


def _counters(snapshot: Snapshot) -> Mask:
    """(D,) enough is left for the draw and the pool is not over-committed (CTR-6), or it is drawn already
    (CAP-13).
    """
    fleet, occupancy = snapshot.fleet, snapshot.occupancy
    if not snapshot.rules.has(PARTITIONABLE_DEVICES):
        return np.ones(fleet.size, dtype=np.bool_)
    passed = fits(occupancy.left, fleet.table, fleet.sets, fleet.draws)
    over = (occupancy.left < 0).any(axis=1)
    if over.any():
        groups = fleet.set_group[over]
        passed &= ~((fleet.sets >= 0) & np.isin(fleet.set_group[fleet.sets], groups)).any(axis=1)
    return passed | occupancy.sharing
