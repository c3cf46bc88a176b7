"""Why claims cannot be allocated: how many devices pass each test, over all nodes considered."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from msgspec import Struct

from kernels.types import Mask, Rows
from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.candidates import capacity_permits, counters_permit, not_excluded
from reconciler.allocation.dra.node_attempt import NodeRefusal
from reconciler.allocation.dra.request_options import ParsedClaims, RequestKey, RequestOption
from reconciler.allocation.dra.selector_masks import evaluate_selectors
from reconciler.allocation.dra.static_match import disabled_features, taints_permit
from reconciler.api.objects.plan import Gate, Reason, RequestCount, Unsatisfied
from reconciler.api.objects.semantics import COMPATIBILITY_GROUPS
from reconciler.state.caches import Cache, share
from reconciler.state.devices.exclusion_modes import explain
from reconciler.state.devices.occupancy import Trail
from reconciler.state.devices.snapshot import Snapshot, Topology

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


LONGEST_MESSAGE = 2000
"""Characters. A claim may name ten thousand constraints."""
_GATES = {
    MATCH: (Reason.NO_DEVICE, "matches class and selectors", "match class and selectors"),
    FEATURE: (Reason.GATE_OFF, "needs no disabled feature", "need no disabled feature"),
    POOL: (Reason.POOL, "belongs to a complete and valid pool", "belong to complete and valid pools"),
    FREE: (Reason.IN_USE, "is free", "are free"),
    CAPACITY: (Reason.CAPACITY, "has enough capacity", "have enough capacity"),
    EXCLUSION: (Reason.EXCLUDED, "is not excluded by held devices", "are not excluded by held devices"),
    COUNTERS: (Reason.COUNTERS, "fits the remaining counters", "fit the remaining counters"),
    TAINTS: (Reason.TAINTED, "has only tolerated taints", "have only tolerated taints"),
}
"""Test -> the reason where it stops a request, and what one device and what several devices do"""


def unsatisfied(
    parsed: ParsedClaims,
    snapshot: Snapshot,
    nodes: Sequence[str] | None,
    refused: Sequence[tuple[str, NodeRefusal]],
    steps: int,
) -> Unsatisfied:
    """The answer when no node fits. `nodes` are those considered; None is all. Counted only when needed."""
    keys = tuple(claim.key for claim in parsed.claims)
    errors = tuple((node, outcome.message) for node, outcome in refused if outcome.reason is not None)
    reason, message, counts = _from_counts(parsed, snapshot, nodes)
    stuck = next((o for _, o in refused if o.reason is Reason.GAVE_UP), None)
    if stuck is not None:
        reason, message = Reason.GAVE_UP, f"{stuck.message} on a node; {message}"
    elif refused and len(errors) == len(refused):
        node, first = refused[0]
        assert first.reason is not None
        more = len(refused) - 1
        others = f" (and {more} more node{'s' if more > 1 else ''})" if more else ""
        reason, message = first.reason, f"node {node}{others}: {first.message}"
    considered = len(snapshot.topology.nodes if nodes is None else nodes)
    if len(message) > LONGEST_MESSAGE:
        message = f"{message[:LONGEST_MESSAGE]}... ({len(message)} characters)"
    return Unsatisfied(keys, reason, message, considered, steps, counts, errors)


def _from_counts(
    parsed: ParsedClaims, snapshot: Snapshot, nodes: Sequence[str] | None
) -> tuple[Reason, str, tuple[RequestCount, ...]]:
    if not snapshot.topology.nodes or (nodes is not None and not nodes):
        return Reason.NO_NODES, "there is no node to allocate on", ()
    counts: list[RequestCount] = []
    worst: tuple[Reason, str] | None = None
    for slot in parsed.slots:
        verdicts = []
        for option in slot.options:
            tally = count_gates(option, snapshot, nodes)
            wanted = None if option.all else option.source.wanted
            count = RequestCount(parsed.claims[option.claim].key, option.name, wanted, tally.gates)
            counts.append(count)
            verdicts.append(_verdict(count, tally, snapshot))
        if worst is None and all(verdict is not None for verdict in verdicts):
            worst = verdicts[0]
    if worst is not None:
        return *worst, tuple(counts)
    reason, message = _together(parsed, counts)
    if snapshot.fleet.exclusion is not None:
        message += "; some devices exclude others"
    return reason, message, tuple(counts)


def _verdict(count: RequestCount, tally: Tally, snapshot: Snapshot) -> tuple[Reason, str] | None:
    """Why a request option alone cannot be met; None if it can."""
    total, *gates = count.gates
    wanted = count.wanted if count.wanted is not None else max(gates[0].left, 1)
    needs = f"the request needs {'all devices' if count.wanted is None else _devices(count.wanted)}"
    text = f"claim {count.claim}, request {count.request}: "
    for gate in gates:
        reason, singular, plural = _GATES[gate.name]
        text += f"{gate.left} of {_devices(total.left)}" if gate is gates[0] else f"; {gate.left}"
        text += f" {singular if gate.left == 1 else plural}"
        if gate.name == FEATURE:
            text += f" ({', '.join(f'{name} is off' for name in tally.off)})"
        if gate.left < wanted:
            if gate.name == POOL:
                return reason, f"{text}{_flaws(snapshot)}; {needs}"
            return reason, f"{text}{_kept(tally)}; {needs}{_excluded(tally, snapshot)}"
    if count.wanted is None:
        return None
    most, node = _most_on_one_node(tally.left, snapshot)
    if most < wanted:
        where = f"one node{f' ({node})' if node else ''}"
        text += f"; at most {most} {'is' if most == 1 else 'are'} on {where}; {needs}"
        return Reason.NO_NODE, text + _kept(tally) + _excluded(tally, snapshot)
    return None


def _kept(tally: Tally) -> str:
    """For whom devices are held that are not in use."""
    return f" ({', '.join(tally.kept)})" if tally.kept else ""


def _excluded(tally: Tally, snapshot: Snapshot) -> str:
    """What excludes the devices that are excluded."""
    return f"; excluded: {explain(tally.excluded, snapshot)}" if len(tally.excluded) else ""


def _flaws(snapshot: Snapshot) -> str:
    """The first pool that is not ready, and how many more there are."""
    topology = snapshot.topology
    flawed = [(pool.id, flaw) for pool in topology.fleet.pools if (flaw := pool.flaw(topology.rules))]
    if not flawed:
        return ""
    (pool, flaw), *others = flawed
    more = f"; {len(others)} more pool{' is' if len(others) == 1 else 's are'} not ready" if others else ""
    return f" (pool {pool}: {flaw}{more})"


def _devices(count: int) -> str:
    return f"{count} device{'s' if count != 1 else ''}"


def _most_on_one_node(left: Rows, snapshot: Snapshot) -> tuple[int, str]:
    """An upper bound of how many of these devices one node can reach, and that node."""
    node = snapshot.fleet.codes["node"][left]
    spanning = int(np.count_nonzero(node < 0))
    local = np.bincount(node[node >= 0])
    if not len(local):
        return spanning, ""
    best = int(local.argmax())
    return int(local[best]) + spanning, snapshot.fleet.vocabulary.nodes.values[best]


def _together(parsed: ParsedClaims, counts: Sequence[RequestCount]) -> tuple[Reason, str]:
    """The answer where each request could be met alone, but no node has devices for all of them."""
    names = ", ".join(f"{parsed.claims[slot.claim].key} {slot.options[0].request}" for slot in parsed.slots)
    attributes = sorted(
        {
            attribute
            for claim in parsed.claims
            for c in claim.spec.devices.constraints
            if (attribute := c.match_attribute or c.distinct_attribute)
        }
    )
    if attributes:
        return (
            Reason.CONSTRAINT,
            f"no node has devices for {names} that meet the constraint on {', '.join(attributes)}",
        )
    if len(counts) == 1:
        left, wanted = counts[0].gates[-1].left, counts[0].wanted
        fit = f"{_devices(left)} {'fits' if left == 1 else 'fit'} individually"
        many = "all" if wanted is None else str(wanted)
        return Reason.TOGETHER, f"{names}: {fit}; no node can fit {many} of them together"
    return Reason.TOGETHER, f"each of {names} can be met alone; no node has devices for all of them"
