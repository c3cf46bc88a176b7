"""Why claims cannot be allocated: which test left how many devices, over all nodes considered."""

from collections.abc import Sequence

import numpy as np

from kernels.types import Mask, Rows
from reconciler.allocator.asks import Ask, Asked
from reconciler.allocator.candidates import capacity_permits, counters_permit, taints_permit
from reconciler.allocator.onenode import NotFound
from reconciler.allocator.refusal import Fatal
from reconciler.allocator.sight import look
from reconciler.inventory.snapshot import Snapshot
from reconciler.objects.plan import Gate, Reason, RequestCount, Unsatisfied

MATCH, FREE, CAPACITY, COUNTERS, TAINTS = (
    "match class and selectors",
    "are not in use",
    "have the capacity",
    "fit what is left of their counters",
    "have only tolerated taints",
)
_REASONS = {
    MATCH: Reason.NO_DEVICE,
    FREE: Reason.IN_USE,
    CAPACITY: Reason.CAPACITY,
    COUNTERS: Reason.COUNTERS,
    TAINTS: Reason.TAINTED,
}


def unsatisfied(
    asked: Asked,
    world: Snapshot,
    names: Sequence[str],
    refused: Sequence[tuple[str, NotFound]],
    steps: int,
) -> Unsatisfied:
    """The answer when no node fits. Counts over the whole fleet; worked out only now."""
    keys = tuple(claim.key for claim in asked.claims)
    errors = tuple((node, outcome.message) for node, outcome in refused if outcome.reason is not None)
    reason, message, counts = _from_counts(asked, world, names)
    stuck = next((o for _, o in refused if o.reason is Reason.GAVE_UP), None)
    if stuck is not None:
        reason, message = Reason.GAVE_UP, f"{stuck.message} on a node; {message}"
    elif refused and len(errors) == len(refused):
        node, first = refused[0]
        assert first.reason is not None
        others = f" (and {len(refused) - 1} more nodes)" if len(refused) > 1 else ""
        reason, message = first.reason, f"node {node}{others}: {first.message}"
    return Unsatisfied(keys, reason, message, len(names), steps, counts, errors)


def _from_counts(
    asked: Asked, world: Snapshot, names: Sequence[str]
) -> tuple[Reason, str, tuple[RequestCount, ...]]:
    if not names:
        return Reason.NO_NODE, "there is no node to allocate on", ()
    rows = _considered(world, names)
    counts: list[RequestCount] = []
    worst: tuple[Reason, str] | None = None
    for slot in asked.slots:
        verdicts = []
        for ask in slot.asks:
            count, left = _count(asked, ask, rows, world)
            counts.append(count)
            verdicts.append(_verdict(count, rows[left], world))
        if worst is None and all(verdict is not None for verdict in verdicts):
            worst = verdicts[0]
    if worst is not None:
        return *worst, tuple(counts)
    return *_together(asked), tuple(counts)


def _considered(world: Snapshot, names: Sequence[str]) -> Rows:
    """Rows of the fleet that at least one of the nodes may reach."""
    fleet = world.fleet
    codes = [fleet.words.nodes.find(name) for name in names]
    node = fleet.codes["node"]
    return np.flatnonzero(np.isin(node, codes) | (node < 0))


def _count(asked: Asked, ask: Ask, rows: Rows, world: Snapshot) -> tuple[RequestCount, Mask]:
    """What each test left for an ask, and which of `rows` are left at the end."""
    left = look(ask, world.fleet).true[rows]
    gates = [Gate("devices", len(rows)), Gate(MATCH, int(left.sum()))]
    tests = [(FREE, ~world.occupancy.held[rows])] if not ask.admin else []
    for name, test in (*tests, *_tests(ask, rows, world)):
        left = left & test
        gates.append(Gate(name, int(left.sum())))
    wanted = None if ask.all else ask.source.wanted
    return RequestCount(asked.claims[ask.claim].key, ask.name, wanted, tuple(gates)), left


def _tests(ask: Ask, rows: Rows, world: Snapshot) -> list[tuple[str, Mask]]:
    tests = [(COUNTERS, counters_permit(rows, world)), (TAINTS, taints_permit(ask, rows, world))]
    try:
        return [(CAPACITY, capacity_permits(ask, rows, world)), *tests]
    except Fatal:  # reported as the error of the node that met it
        return tests


def _verdict(count: RequestCount, left: Rows, world: Snapshot) -> tuple[Reason, str] | None:
    """Why an ask alone cannot be met; None if it can."""
    total, *gates = count.gates
    wanted = count.wanted if count.wanted is not None else max(gates[0].left, 1)
    text = f"claim {count.claim}, request {count.request} wants {_amount(count.wanted)}: of {total.left}"
    for gate in gates:
        text += f", {gate.left} {gate.name}" if gate is not gates[0] else f" devices {gate.left} {gate.name}"
        if gate.left < wanted:
            return _REASONS[gate.name], text
    if count.wanted is None:
        return None
    most, node = _most_on_one_node(left, world)
    if most < wanted:
        return Reason.NO_NODE, f"{text}, but at most {most} on one node{f' ({node})' if node else ''}"
    return None


def _amount(wanted: int | None) -> str:
    return "all devices" if wanted is None else f"{wanted} device{'s' if wanted != 1 else ''}"


def _most_on_one_node(left: Rows, world: Snapshot) -> tuple[int, str]:
    """The largest number of these devices that one node can reach, at most; and that node."""
    node = world.fleet.codes["node"][left]
    spanning = int(np.count_nonzero(node < 0))
    local = np.bincount(node[node >= 0])
    if not len(local):
        return spanning, ""
    best = int(local.argmax())
    return int(local[best]) + spanning, world.fleet.words.nodes.values[best]


def _together(asked: Asked) -> tuple[Reason, str]:
    """Each request could be met alone, but not all of them on one node."""
    names = ", ".join(f"{asked.claims[slot.claim].key} {slot.asks[0].request}" for slot in asked.slots)
    tied = sorted(
        {
            attribute
            for claim in asked.claims
            for c in claim.spec.devices.constraints
            if (attribute := c.match_attribute or c.distinct_attribute)
        }
    )
    if tied:
        return (
            Reason.CONSTRAINT,
            f"no node has devices for {names} that meet the constraint on {', '.join(tied)}",
        )
    return Reason.TOGETHER, f"each of {names} could be met alone, but no node has devices for all of them"
