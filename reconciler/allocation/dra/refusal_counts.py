"""Why claims cannot be allocated: how many devices pass each test, over all nodes considered."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np
from msgspec import Struct

from kernels.groups import distinct
from kernels.types import Mask, Rows
from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.candidates import capacity_permits, counters_permit, not_excluded
from reconciler.allocation.dra.claim_shapes import claim_shape
from reconciler.allocation.dra.never_fits import lacking
from reconciler.allocation.dra.node_attempt import NodeRefusal
from reconciler.allocation.dra.off_gates import disabled_for, uncompared_lists
from reconciler.allocation.dra.request_options import ParsedClaims, RequestKey, RequestOption
from reconciler.allocation.dra.selector_masks import evaluate_selectors
from reconciler.allocation.dra.static_match import match_in_fleet, taints_permit
from reconciler.api.objects.plan import Gate, Reason, RequestCount, Unsatisfied
from reconciler.api.objects.semantics import COMPATIBILITY_GROUPS, spelled
from reconciler.errors import counted
from reconciler.state.caches import Cache, share
from reconciler.state.devices.exclusion_modes import explain
from reconciler.state.devices.occupancy import Trail
from reconciler.state.devices.readiness import NodeReach, readiness
from reconciler.state.devices.snapshot import Snapshot, Topology

MATCH, FEATURE, NODES, POOL, FREE, CAPACITY, EXCLUSION, COUNTERS, TAINTS = (
    "match class and selectors",
    "need no disabled feature",
    "are on nodes that can use them",
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
    most: tuple[int, str]
    """How many of them one node reaches at most, and that node"""
    excluded: Rows
    """(m,) rows that held devices exclude"""
    unready: Rows
    """(u,) rows of pools that are incomplete or invalid"""
    off: tuple[str, ...]
    """Feature gates that are off and that matching devices need"""
    trail: Trail
    serial: int
    kept: tuple[str, ...] = ()
    """How many devices are held for whom, for people"""


_TALLIES: Cache[Topology, dict[RequestKey, Tally]] = Cache(lambda _: {})


def reach_of(topology: Topology, nodes: Collection[str] | None) -> NodeReach:
    """What the considered nodes reach; None is all nodes."""
    return _REACH.of(topology) if nodes is None else NodeReach(topology, nodes)


_REACH: Cache[Topology, NodeReach] = Cache(lambda topology: NodeReach(topology, None), on_fork=share)


def count_gates(option: RequestOption, snapshot: Snapshot, reach: NodeReach) -> Tally:
    """The counts for a request option over the devices that any of the nodes may reach.

    Counts over all nodes are cached until a device is held or freed: many claims have the same request.
    """
    if reach.chosen is not None:
        return _tally(option, snapshot, reach)
    of_fleet = _TALLIES.of(snapshot.topology)
    known = of_fleet.get(option.key)
    occupancy = snapshot.occupancy
    if known is None or known.trail is not occupancy.trail or known.serial != occupancy.serial:
        known = of_fleet[option.key] = _tally(option, snapshot, reach)
    return known


def _tally(option: RequestOption, snapshot: Snapshot, reach: NodeReach) -> Tally:
    rows = evaluate_selectors(option, snapshot.fleet).true.nonzero()[0]
    gates = [Gate("devices", snapshot.fleet.size), Gate(MATCH, len(rows))]
    off, rows = _without_disabled(option, rows, snapshot)
    if off:
        gates.append(Gate(FEATURE, len(rows)))
    # The next two are listed only where they stop a device.
    here = reach.everything[rows]
    if np.count_nonzero(here) < len(rows):
        rows = rows[here]
        gates.append(Gate(NODES, len(rows)))
    excluded = unready = rows[:0]
    if (known := readiness(snapshot.topology, reach.chosen)).problems:
        ready = known.ready[rows]
        unready, rows = rows[~ready], rows[ready]
        if len(unready):
            gates.append(Gate(POOL, len(rows)))
    kept = list[str]()
    for name, test in _tests(option, snapshot):
        try:
            if test is None or np.count_nonzero(passed := test(rows)) == len(rows):
                gates.append(Gate(name, len(rows)))
                continue
            if name in _KEPT:
                kept += [text for text in [_KEPT[name](rows[~passed], snapshot)] if text]
            if name in (CAPACITY, COUNTERS):
                kept += _by_request(option, name, rows[~passed], snapshot)
            if name == EXCLUSION:
                excluded = rows[~passed]
                kept += untold(option, excluded, snapshot)
            rows = rows[passed]
        except Fatal:  # reported with the node where it happens
            continue
        gates.append(Gate(name, len(rows)))
    trail, serial = snapshot.occupancy.trail, snapshot.occupancy.serial
    most = _most_on_one_node(rows, reach)
    return Tally(tuple(gates), rows, most, excluded, unready, off, trail, serial, tuple(dict.fromkeys(kept)))


def _by_request(option: RequestOption, name: str, rows: Rows, snapshot: Snapshot) -> Iterator[str]:
    """That the request says how much some devices draw, if that stops one of them."""
    asks = match_in_fleet(option, snapshot).asks
    if asks is not None and (name == COUNTERS or asks.refused[rows].any()):
        yield "preview: the request says how much of the counters it draws"


def untold(option: RequestOption, rows: Rows, snapshot: Snapshot) -> Iterator[str]:
    """Why a request asks for no mode of the first of some devices that need one (AFF-2)."""
    modes = match_in_fleet(option, snapshot).modes
    if modes is not None:
        for row in rows[~modes.told[rows]][:1].tolist():
            yield f"{snapshot.fleet.id_of(row).device}: {modes.mode(row)} (preview)"


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


def _without_disabled(option: RequestOption, rows: Rows, snapshot: Snapshot) -> tuple[tuple[str, ...], Rows]:
    """The gates that are off and that some of the rows need, and the rows (n,) that need none of them."""
    off: list[str] = []
    for gate, needing in disabled_for(option, snapshot).items():
        stopped = needing[rows]
        if gate == COMPATIBILITY_GROUPS:  # further shares are not tested (GRP-5)
            stopped = stopped & ~snapshot.occupancy.sharing[rows]
        if stopped.any():
            off.append(gate)
            rows = rows[~stopped]
    return tuple(off), rows


def _tests(option: RequestOption, snapshot: Snapshot) -> Iterator[tuple[str, Callable[[Rows], Mask] | None]]:
    """The tests of devices that match; None if all of them pass."""
    static = match_in_fleet(option, snapshot)
    if not option.admin:
        yield FREE, lambda rows: ~snapshot.occupancy.held[rows]
    sized = option.capacity or static.consumption or static.asks is not None
    yield CAPACITY, (lambda rows: capacity_permits(option, rows, snapshot)) if sized else None
    # What a whole device uses up, it excludes as well: that it is used up says more.
    yield COUNTERS, lambda rows: counters_permit(option, rows, snapshot)
    if snapshot.occupancy.open is not None or static.modes is not None:  # only where some exclude others
        yield EXCLUSION, lambda rows: not_excluded(option, rows, snapshot)
    tainted = snapshot.fleet.vocabulary.taints.values
    yield TAINTS, (lambda rows: taints_permit(option, rows, snapshot)) if tainted else None


MOST_NODES_NAMED = 3
LONGEST_MESSAGE = 2000
"""Characters. A claim may name ten thousand constraints."""
_GATES = {
    MATCH: (Reason.NO_DEVICE, "matches class and selectors", "match class and selectors"),
    FEATURE: (Reason.GATE_OFF, "needs no disabled feature", "need no disabled feature"),
    NODES: (Reason.NO_NODE, "is on nodes that can use it", "are on nodes that can use them"),
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
    fits_with_lists: Callable[[], bool],
) -> Unsatisfied:
    """The answer when no node fits. `nodes` are those considered; None is all. Counted only when needed.
    `fits_with_lists` says whether one would if lists were compared.
    """

    def uncompared() -> str:
        found = uncompared_lists(parsed, snapshot)
        return found if found and fits_with_lists() else ""

    keys = tuple(claim.key for claim in parsed.claims)
    errors = tuple((node, outcome.message) for node, outcome in refused if outcome.reason is not None)
    reason, message, counts = _from_counts(parsed, snapshot, nodes, uncompared)
    stuck = next((pair for pair in refused if pair[1].reason is Reason.GAVE_UP), None)
    if stuck is not None:
        reason, message = Reason.GAVE_UP, f"{stuck[1].message} on a node; {message}"
    elif refused and len(errors) == len(refused):
        node, first = refused[0]
        assert first.reason is not None
        more = len(refused) - 1
        others = f" (and {counted(more, 'more node')})" if more else ""
        reason, message = first.reason, f"node {node}{others}: {first.message}"
        if reason is Reason.CONSTRAINT_VIOLATED and (off := uncompared()):
            reason, message = Reason.GATE_OFF, f"{message}; {off}"
    considered = len(snapshot.topology.nodes if nodes is None else nodes)
    if len(message) > LONGEST_MESSAGE:
        message = f"{message[:LONGEST_MESSAGE]}... ({len(message)} characters)"
    return Unsatisfied(keys, reason, message, considered, steps, counts, errors, stuck and stuck[0])


def _from_counts(
    parsed: ParsedClaims, snapshot: Snapshot, nodes: Sequence[str] | None, uncompared: Callable[[], str]
) -> tuple[Reason, str, tuple[RequestCount, ...]]:
    if not snapshot.topology.nodes or (nodes is not None and not nodes):
        return Reason.NO_NODES, "there is no node to allocate on", ()
    reach = reach_of(snapshot.topology, nodes)
    counts: list[RequestCount] = []
    worst: tuple[Reason, str] | None = None
    never: tuple[Reason, str] | None = None
    for slot in parsed.slots:
        verdicts = []
        for option in slot.options:
            tally = count_gates(option, snapshot, reach)
            wanted = None if option.all else option.source.wanted
            count = RequestCount(parsed.claims[option.claim].key, option.name, wanted, tally.gates)
            counts.append(count)
            verdicts.append(_verdict(count, tally, snapshot, reach))
        if worst is None and all(verdict is not None for verdict in verdicts):
            worst = verdicts[0]
        first = verdicts[0]
        if never is None and all(verdicts) and first is not None and _is_hopeful(first[0], counts[-1]):
            lacks = [lacking(option, snapshot) for option in slot.options]
            if all(lacks) and any(map(_gate_decides, counts[-len(slot.options) :])):
                never = Reason.GATE_OFF, first[1]
            elif all(lacks):
                never = Reason.NEVER, f"{first[1]}; it can never fit: even if all were free, {lacks[0]}"
    if never is not None or worst is not None:
        reason, message = never or worst  # type: ignore[misc]
        return reason, message, tuple(counts)
    reason, message = _together(parsed, counts)
    shape = claim_shape(parsed.claims, snapshot)
    if reason is Reason.CONSTRAINT:
        if off := uncompared():
            return Reason.GATE_OFF, f"{message}: {off}", tuple(counts)
        never_holds, why = shape.obstacle(snapshot)
        message = f"{message}: {why}" if why else message
        if never_holds:
            return Reason.NEVER, message, tuple(counts)
    all_pass = all(gate.left == count.gates[1].left for count in counts for gate in count.gates[1:])
    if reach.chosen is None and all_pass and not _is_held(parsed, snapshot):
        reason, message = Reason.NEVER, f"{message}; it can never fit: none of the devices is held"
    if snapshot.fleet.exclusion is not None:
        message += "; some devices exclude others"
    return reason, message, tuple(counts)


def _is_hopeful(reason: Reason, count: RequestCount) -> bool:
    """Whether a refusal of a request would usually end when something is freed."""
    hopeful = (Reason.IN_USE, Reason.CAPACITY, Reason.EXCLUDED, Reason.COUNTERS, Reason.NO_NODE)
    return reason in hopeful and not any(gate.name == NODES for gate in count.gates)


def _gate_decides(count: RequestCount) -> bool:
    """Whether enough devices are left with those that a gate which is off stops."""
    steps = zip(count.gates, count.gates[1:], strict=False)
    stopped = sum(before.left - gate.left for before, gate in steps if gate.name == FEATURE)
    return bool(stopped) and count.gates[-1].left + stopped >= (count.wanted or 1)


def _is_held(parsed: ParsedClaims, snapshot: Snapshot) -> bool:
    """Whether any device is held in a pool with devices that requests match, or held back for others."""
    occupancy, fleet = snapshot.occupancy, snapshot.fleet
    taken = occupancy.held | occupancy.sharing
    if not taken.any() and not occupancy.held_for:
        return bool((occupancy.left != fleet.totals).any())  # devices that are not published any more
    options = [option for slot in parsed.slots for option in slot.options]
    matching = np.any([evaluate_selectors(option, fleet).true for option in options], axis=0)
    pools = np.isin(fleet.pool_of, distinct(fleet.pool_of[matching]))
    return bool(occupancy.held_for) or bool((taken & pools).any())


def _verdict(
    count: RequestCount, tally: Tally, snapshot: Snapshot, reach: NodeReach
) -> tuple[Reason, str] | None:
    """Why a request option alone cannot be met; None if it can."""
    total, *gates = count.gates
    matching = next((gate.left for gate in gates if gate.name == NODES), gates[0].left)
    wanted = count.wanted if count.wanted is not None else max(matching, 1)
    if gates[-1].left >= wanted and (count.wanted is None or tally.most[0] >= wanted):
        return None
    needs = f"the request needs {'all devices' if count.wanted is None else counted(count.wanted, 'device')}"
    text = f"claim {count.claim}, request {count.request}: "
    for gate in gates:
        reason, singular, plural = _GATES[gate.name]
        text += f"{gate.left} of {counted(total.left, 'device')}" if gate is gates[0] else f"; {gate.left}"
        text += f" {singular if gate.left == 1 else plural}"
        if gate.name == FEATURE:
            text += f" ({', '.join(f'{spelled(name)} is off' for name in tally.off)})"
        if gate.left < wanted:
            if gate.name == NODES:
                return reason, f"{text}{_considered(reach)}; {needs}"
            if gate.name == POOL:
                return reason, f"{text}{_flaws(tally.unready, snapshot)}; {needs}"
            return reason, f"{text}{_kept(tally)}; {needs}{_excluded(tally, snapshot)}"
    most, node = tally.most
    text += f"; at most {most} {'is' if most == 1 else 'are'} on one node ({node}); {needs}"
    return Reason.NO_NODE, text + _kept(tally) + _excluded(tally, snapshot)


def _kept(tally: Tally) -> str:
    """For whom devices are held that are not in use."""
    return f" ({', '.join(tally.kept)})" if tally.kept else ""


def _excluded(tally: Tally, snapshot: Snapshot) -> str:
    """What excludes the devices that are excluded."""
    why = explain(tally.excluded, snapshot)
    return f"; excluded: {why}" if why else ""


def _considered(reach: NodeReach) -> str:
    """The considered nodes, if they are few and not all."""
    few = reach.chosen is not None and len(reach.names) <= MOST_NODES_NAMED
    return f" (considered: {', '.join(reach.names)})" if few else ""


def _flaws(unready: Rows, snapshot: Snapshot) -> str:
    """The first pool of these devices and what is wrong with it, and how many more pools there are."""
    first, *others = distinct(snapshot.fleet.pool_of[unready]).tolist()
    problem = readiness(snapshot.topology).problems.get(first, "its nodes see slices of another generation")
    more = f"; {len(others)} more pool{' is' if len(others) == 1 else 's are'} not ready" if others else ""
    return f" (pool {snapshot.fleet.pools[first].id}: {problem}{more})"


def unready_pools(parsed: ParsedClaims, snapshot: Snapshot) -> str:
    """How many devices that claims ask for are in pools that are not ready, and in which; empty for none."""
    known = readiness(snapshot.topology)
    if not known.problems:
        return ""
    matching = [
        evaluate_selectors(option, snapshot.fleet).true for slot in parsed.slots for option in slot.options
    ]
    unready = np.flatnonzero(np.any(matching, axis=0) & ~known.ready)
    if not len(unready):
        return ""
    one = len(unready) == 1
    where = "that matches is in a pool that is not" if one else "that match are in pools that are not"
    return f"{counted(len(unready), 'device')} {where} ready{_flaws(unready, snapshot)}"


def _most_on_one_node(left: Rows, reach: NodeReach) -> tuple[int, str]:
    """The most of these devices that one node reaches, and that node."""
    if not reach.names:
        return 0, ""
    counts = reach.counts(left)
    best = int(counts.argmax())
    return int(counts[best]), reach.names[best]


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
    if len(parsed.slots) == 1 and 1 in {count.wanted for count in counts}:
        return Reason.NO_NODE, f"{names}: a device fits, but no node can use it with everything it needs"
    if len(counts) == 1:
        left, wanted = counts[0].gates[-1].left, counts[0].wanted
        fit = f"{counted(left, 'device')} {'fits' if left == 1 else 'fit'} individually"
        many = "all" if wanted is None else str(wanted)
        return Reason.TOGETHER, f"{names}: {fit}; no node can fit {many} of them together"
    return Reason.TOGETHER, f"each of {names} can be met alone; no node has devices for all of them"
