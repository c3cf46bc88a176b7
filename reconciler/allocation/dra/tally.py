"""How many devices of the fleet pass each test for a request option, one test after the other."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from msgspec import Struct

from kernels.types import Mask, Rows
from reconciler.allocation.dra.candidates import capacity_permits, counters_permit, not_excluded
from reconciler.allocation.dra.disabled_features import disabled_features
from reconciler.allocation.dra.refusal import Fatal
from reconciler.allocation.dra.request_options import RequestKey, RequestOption
from reconciler.allocation.dra.selector_masks import evaluate_selectors
from reconciler.allocation.dra.static_match import taints_permit
from reconciler.api.objects.plan import Gate
from reconciler.api.objects.semantics import COMPATIBILITY_GROUPS
from reconciler.state.caches import Cache, share
from reconciler.state.devices.occupancy.trail import Trail
from reconciler.state.devices.snapshot.snapshot import Snapshot, Topology

MATCH, FEATURE, POOL, FREE, CAPACITY, EXCLUSION, COUNTERS, TAINTS = (
    "match class and selectors",
    "need no disabled feature",
    "belong to complete and valid pools",
    "are not in use",
    "have the capacity",
    "are not excluded by what is held",
    "fit what is left of their counters",
    "have only tolerated taints",
)


class Tally(Struct, frozen=True):
    """The count after each test, and the devices that pass all tests."""

    gates: tuple[Gate, ...]
    left: Rows
    """(n,) rows of the fleet"""
    excluded: Rows
    """(m,) rows that held devices exclude"""
    off: tuple[str, ...]
    """Feature gates that are off and that matching devices need"""
    trail: Trail
    serial: int
    kept: tuple[str, ...] = ()
    """How many devices are held for whom, for people"""


_TALLIES: Cache[Topology, dict[RequestKey, Tally]] = Cache(lambda _: {})


def count_gates(option: RequestOption, snapshot: Snapshot, nodes: Sequence[str] | None) -> Tally:
    """The counts for a request option over the devices that any of the nodes may reach; None is all nodes.

    Counts over all nodes are cached until a device is held or freed: many claims have the same request.
    """
    if nodes is not None:
        return _tally(option, snapshot, nodes)
    of_fleet = _TALLIES.of(snapshot.topology)
    known = of_fleet.get(option.key)
    occupancy = snapshot.occupancy
    if known is None or known.trail is not occupancy.trail or known.serial != occupancy.serial:
        known = of_fleet[option.key] = _tally(option, snapshot, snapshot.topology.order)
    return known


def _tally(option: RequestOption, snapshot: Snapshot, nodes: Sequence[str]) -> Tally:
    reach = _reachable(snapshot, nodes)
    rows = np.flatnonzero(reach & evaluate_selectors(option, snapshot.fleet).true)
    gates = [Gate("devices", int(np.count_nonzero(reach))), Gate(MATCH, len(rows))]
    off, rows = _without_disabled(rows, snapshot)
    if off:
        gates.append(Gate(FEATURE, len(rows)))
    unready = _UNREADY.of(snapshot.topology)
    if unready.any():  # listed only where it matters: most fleets are complete
        rows = rows[~unready[rows]]
        gates.append(Gate(POOL, len(rows)))
    excluded, kept = rows[:0], list[str]()
    for name, test in _tests(option, snapshot):
        try:
            passed = test(rows)
            if name in _KEPT:
                kept += [text for text in [_KEPT[name](rows[~passed], snapshot)] if text]
            if name == EXCLUSION:
                excluded = rows[~passed]
            rows = rows[passed]
        except Fatal:  # reported with the node where it happens
            continue
        gates.append(Gate(name, len(rows)))
    return Tally(
        tuple(gates), rows, excluded, off, snapshot.occupancy.trail, snapshot.occupancy.serial, tuple(kept)
    )


def kept_for(rows: Rows, snapshot: Snapshot) -> str:
    """`2 held for pod default/a until 07:15:30Z`: the nominated devices among some rows; empty if none."""
    named = snapshot.occupancy.held_for
    found = Counter(named[row] for row in rows.tolist() if row in named) if named else {}
    return ", ".join(f"{count} held for {whom}" for whom, count in found.items())


def _draws_kept_for(rows: Rows, snapshot: Snapshot) -> str:
    """The same for devices whose counters would be enough without nominations."""
    occupancy = snapshot.occupancy
    if occupancy.base is None or not (count := int(np.count_nonzero(occupancy.base.fits[rows]))):
        return ""
    return f"counters of {count} held for {', '.join(dict.fromkeys(occupancy.held_for.values()))}"


_KEPT = {FREE: kept_for, COUNTERS: _draws_kept_for}
"""Tests that nominations may decide -> for whom"""


def _without_disabled(rows: Rows, snapshot: Snapshot) -> tuple[tuple[str, ...], Rows]:
    """The gates that are off and that some of the rows need, and the rows (n,) that need none of them."""
    off: list[str] = []
    for gate, needing in disabled_features(snapshot.topology).items():
        stopped = needing[rows]
        if gate == COMPATIBILITY_GROUPS:  # further shares are not tested (GRP-5)
            stopped = stopped & ~snapshot.occupancy.sharing[rows]
        if stopped.any():
            off.append(gate)
            rows = rows[~stopped]
    return tuple(off), rows


def _reachable(snapshot: Snapshot, nodes: Sequence[str]) -> Mask:
    """(D,) devices that at least one of the nodes may reach."""
    node = snapshot.fleet.codes["node"]
    known = np.zeros(len(snapshot.fleet.vocabulary.nodes.values) + 1, dtype=np.bool_)
    known[-1] = True  # code -1: not bound to a node by name
    codes = [code for name in nodes if (code := snapshot.fleet.vocabulary.nodes.find(name)) >= 0]
    known[codes] = True
    return known[node]


def _unready(topology: Topology) -> Mask:
    """(D,) devices of pools that are incomplete or invalid for all nodes."""
    pieces = [~pool.offered(topology.rules) for pool in topology.fleet.pools]
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.bool_)


_UNREADY = Cache(_unready, on_fork=share)


def _tests(option: RequestOption, snapshot: Snapshot) -> Iterator[tuple[str, Callable[[Rows], Mask]]]:
    if not option.admin:
        yield FREE, lambda rows: ~snapshot.occupancy.held[rows]
    yield CAPACITY, lambda rows: capacity_permits(option, rows, snapshot)
    if snapshot.occupancy.open is not None:  # listed only where some device excludes others
        yield EXCLUSION, lambda rows: not_excluded(rows, snapshot)
    yield COUNTERS, lambda rows: counters_permit(rows, snapshot)
    yield TAINTS, lambda rows: taints_permit(option, rows, snapshot)
