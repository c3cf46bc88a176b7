"""Why claims cannot be allocated: which test left how many devices, over all nodes considered."""

from collections.abc import Sequence

import numpy as np

from kernels.types import Rows
from reconciler.allocation.dra.node_attempt import NotFound
from reconciler.allocation.dra.request_options import ParsedClaims
from reconciler.allocation.dra.tally import (
    CAPACITY,
    COUNTERS,
    EXCLUSION,
    FREE,
    MATCH,
    POOL,
    TAINTS,
    Tally,
    count_gates,
)
from reconciler.api.objects.plan import Reason, RequestCount, Unsatisfied
from reconciler.state.devices.exclusion.modes import explain
from reconciler.state.devices.snapshot.snapshot import Snapshot

LONGEST_MESSAGE = 2000
"""Characters. Claims may name ten thousand constraints."""
_REASONS = {
    MATCH: Reason.NO_DEVICE,
    POOL: Reason.POOL,
    FREE: Reason.IN_USE,
    CAPACITY: Reason.CAPACITY,
    EXCLUSION: Reason.EXCLUDED,
    COUNTERS: Reason.COUNTERS,
    TAINTS: Reason.TAINTED,
}


def unsatisfied(
    parsed: ParsedClaims,
    snapshot: Snapshot,
    nodes: Sequence[str] | None,
    refused: Sequence[tuple[str, NotFound]],
    steps: int,
) -> Unsatisfied:
    """The answer when no node fits; `nodes` are those considered, None is all. Worked out only now."""
    keys = tuple(claim.key for claim in parsed.claims)
    errors = tuple((node, outcome.message) for node, outcome in refused if outcome.reason is not None)
    reason, message, counts = _from_counts(parsed, snapshot, nodes)
    stuck = next((o for _, o in refused if o.reason is Reason.GAVE_UP), None)
    if stuck is not None:
        reason, message = Reason.GAVE_UP, f"{stuck.message} on a node; {message}"
    elif refused and len(errors) == len(refused):
        node, first = refused[0]
        assert first.reason is not None
        others = f" (and {len(refused) - 1} more nodes)" if len(refused) > 1 else ""
        reason, message = first.reason, f"node {node}{others}: {first.message}"
    considered = len(snapshot.topology.nodes if nodes is None else nodes)
    if len(message) > LONGEST_MESSAGE:
        message = f"{message[:LONGEST_MESSAGE]}... ({len(message)} characters)"
    return Unsatisfied(keys, reason, message, considered, steps, counts, errors)


def _from_counts(
    parsed: ParsedClaims, snapshot: Snapshot, nodes: Sequence[str] | None
) -> tuple[Reason, str, tuple[RequestCount, ...]]:
    if not snapshot.topology.nodes or (nodes is not None and not nodes):
        return Reason.NO_NODE, "there is no node to allocate on", ()
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
    text = f"claim {count.claim}, request {count.request} wants {_amount(count.wanted)}: of {total.left}"
    for gate in gates:
        text += f", {gate.left} {gate.name}" if gate is not gates[0] else f" devices {gate.left} {gate.name}"
        if gate.left < wanted:
            text += _flaws(snapshot) if gate.name == POOL else _excluded(tally, snapshot)
            return _REASONS[gate.name], text
    if count.wanted is None:
        return None
    most, node = _most_on_one_node(tally.left, snapshot)
    if most < wanted:
        text += f", but at most {most} on one node{f' ({node})' if node else ''}"
        return Reason.NO_NODE, text + _excluded(tally, snapshot)
    return None


def _excluded(tally: Tally, snapshot: Snapshot) -> str:
    """What stands against the devices that exclusivity took away."""
    return f"; excluded: {explain(tally.excluded, snapshot)}" if len(tally.excluded) else ""


def _flaws(snapshot: Snapshot) -> str:
    """The first pool that is not ready, and how many more there are."""
    topology = snapshot.topology
    flawed = [(pool.id, flaw) for pool in topology.fleet.pools if (flaw := pool.flaw(topology.rules))]
    if not flawed:
        return ""
    (pool, flaw), *others = flawed
    return f" (pool {pool}: {flaw}{f'; {len(others)} more pools are not ready' if others else ''})"


def _amount(wanted: int | None) -> str:
    return "all devices" if wanted is None else f"{wanted} device{'s' if wanted != 1 else ''}"


def _most_on_one_node(left: Rows, snapshot: Snapshot) -> tuple[int, str]:
    """The largest number of these devices that one node can reach, at most; and that node."""
    node = snapshot.fleet.codes["node"][left]
    spanning = int(np.count_nonzero(node < 0))
    local = np.bincount(node[node >= 0])
    if not len(local):
        return spanning, ""
    best = int(local.argmax())
    return int(local[best]) + spanning, snapshot.fleet.words.nodes.values[best]


def _together(parsed: ParsedClaims, counts: Sequence[RequestCount]) -> tuple[Reason, str]:
    """No request is impossible by counting, but no node has devices for all of them."""
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
        left, wanted = counts[0].gates[-1].left, _amount(counts[0].wanted)
        alone = f"{names} wants {wanted}: {left} would do one by one"
        return Reason.TOGETHER, f"{alone}, but no node has enough of them that fit together"
    return Reason.TOGETHER, f"each of {names} could be met alone, but no node has devices for all of them"
