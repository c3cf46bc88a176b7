"""Why single devices of a machine do not suit a pod that requests Koordinator's devices."""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.explanation import Explanation, Kind, Lack, NearMiss, Request, Step
from reconciler.allocation.reason_table import remedy
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.errors import counted
from reconciler.plugins.koordinator import filters
from reconciler.plugins.koordinator.columns import DeviceRows
from reconciler.plugins.koordinator.demand import Demand, Failure, type_demand
from reconciler.plugins.koordinator.filters import gates_of, matching, of_type
from reconciler.plugins.koordinator.fleet import Fleet
from reconciler.plugins.koordinator.vocabulary import GPU, TYPES

MOST_HOLDERS = 3
_WHY = {
    filters.SELECTOR_TEST: "does not match the selector",
    filters.HEALTH_TEST: "is unhealthy",
    filters.FUNCTIONS_TEST: "has no virtual function that vfSelector matches",
    filters.SIZE_TEST: "is too small",
    filters.EXCLUSIVE_TEST: "is excluded by exclusive use",
    filters.FREE_FUNCTIONS_TEST: "has no free virtual function that vfSelector matches",
    filters.FREE_TEST: "has too little free",
}
_ABOUT_HOLDERS = {filters.EXCLUSIVE_TEST, filters.FREE_FUNCTIONS_TEST, filters.FREE_TEST}


def closest(rows: Rows, gates: Sequence[tuple[str, Mask]], most: int) -> list[int]:
    """Of `rows`, those that fail a gate, the last gates first: they come closest to passing."""
    failing = np.array([[not passed[row] for _, passed in gates] for row in rows.tolist()], dtype=np.bool_)
    if not len(failing):
        return []
    first = np.where(failing.any(axis=1), failing.argmax(axis=1), len(gates))
    order = np.lexsort((rows, -first))
    return [int(rows[at]) for at in order if first[at] < len(gates)][:most]


def describe(row: int, gates: Sequence[tuple[str, Mask]], fleet: Fleet) -> str:
    """The first gate that a device fails, with its holders if they are the cause."""
    columns = fleet.columns
    kind, minor = TYPES[columns.kind[row]], int(columns.minor[row])
    name = next(name for name, passed in gates if not passed[row])
    node = fleet.names[columns.owner[row]]
    holders = fleet.holders(node).pods(kind, minor) if name in _ABOUT_HOLDERS else ()
    return f"{kind} {minor} {_WHY[name]}{_by(holders)}"


def _by(holders: Sequence[ObjectKey]) -> str:
    if not holders:
        return ""
    more = len(holders) - MOST_HOLDERS
    named = ", ".join(map(str, holders[:MOST_HOLDERS]))
    return f" (held by {named}{f' and {more} more' if more > 0 else ''})"


MOST_NODES = 3
MOST_DEVICES = 3
"""Maximum devices of a node whose failure a near miss describes."""
KINDS = {
    filters.SELECTOR_TEST: Kind.SELECTOR,
    filters.HEALTH_TEST: Kind.TAINTS,
    filters.FUNCTIONS_TEST: Kind.SELECTOR,
    filters.SIZE_TEST: Kind.CAPACITY,
    filters.EXCLUSIVE_TEST: Kind.GROUPS,
    filters.FREE_FUNCTIONS_TEST: Kind.HELD,
    filters.FREE_TEST: Kind.HELD,
}
"""Test -> the most similar kind of gate of claims"""
_SWITCHES = "all types on common PCIe switches"
_SUITABLE = "nodes where the pod can run"


class TypeResult(Struct, frozen=True, eq=False):
    """The gates of one device type over R rows, and what N machines have."""

    kind: str
    wanted: int | None
    """None is "all that match\""""
    gates: Sequence[tuple[str, Mask]]
    """(R,) each, without the first, which tests the type"""
    devices: Mask
    """(R,) devices of the type"""
    left: Mask
    """(R,) devices that pass all gates"""
    have: Amounts
    """(N,)"""
    needed: Amounts
    """(N,) at least 1"""

    @property
    def lacking(self) -> Amounts:
        """(N,) devices that each machine lacks."""
        return np.maximum(self.needed - self.have, 0)


def explain_pod(
    pod: Pod,
    demand: Demand | Failure,
    fleet: Fleet,
    reason: str,
    *,
    message: str = "",
    can_run: Callable[[str], bool] = lambda _: True,
) -> Explanation:
    """One request for each device type. `reason` is the reason of the refusal.

    `can_run` says on which nodes the pod can run, as far as its other requirements are concerned.
    """
    help_ = remedy(reason) if reason else ""
    if isinstance(demand, Failure):
        return Explanation((), "", reason, message or demand.message, help_, 0, pod=pod.key)
    suitable = np.array([can_run(name) for name in fleet.names], dtype=np.bool_)
    rows = fleet.columns.every()
    results = [_result(kind, demand, rows, len(suitable)) for kind in demand.requests]
    able = np.logical_and.reduce([suitable, *(result.lacking == 0 for result in results)])
    refusing = _refusing_gate(reason, demand)
    requests = tuple(
        _request(pod, result, rows, suitable, able if len(results) > 1 else None, refusing)
        for result in results
    )
    nearest = tuple(_near_misses(pod, demand, fleet, results, suitable))
    return Explanation((), "", reason, message, help_, int(suitable.sum()), requests, nearest, pod=pod.key)


def _result(kind: str, demand: Demand, rows: DeviceRows, size: int) -> TypeResult:
    _, *gates = gates_of(rows, demand, kind)
    wanted = type_demand(demand, kind)
    devices = of_type(rows, kind)
    left = devices & np.logical_and.reduce([passed for _, passed in gates])
    needed = np.full(size, wanted.count, dtype=np.int64)
    if wanted.of_all:
        counted = matching(rows, demand, kind) & (rows.health | demand.upstream)
        needed = np.maximum(np.bincount(rows.owner[counted], minlength=size), 1)
    have = np.bincount(rows.owner[left], minlength=size)
    return TypeResult(kind, None if wanted.of_all else wanted.count, gates, devices, left, have, needed)


def _refusing_gate(reason: str, demand: Demand) -> Step | None:
    """The gate on several devices at which the search fails, whatever counting says."""
    never = "even if all devices were free" if reason.endswith("Impossible") else ""
    if reason in ("JointScopeViolation", "JointScopeImpossible"):
        return Step(Kind.ALIGNMENT, _SWITCHES, 0, detail=never, nodes=0)
    if reason in ("TopologyScopeUnsatisfied", "TopologyScopeImpossible"):
        scope = demand.hint(GPU).required_topology_scope
        return Step(Kind.ALIGNMENT, f"within one scope {scope}", 0, detail=never, nodes=0)
    if reason in ("NoFeasiblePartition", "PartitionImpossible"):
        return Step(Kind.PARTITION, "in one listed partition", 0, detail=never, nodes=0)
    return None


def _request(
    pod: Pod, result: TypeResult, rows: DeviceRows, suitable: Mask, able: Mask | None, refusing: Step | None
) -> Request:
    enough = suitable & (result.lacking == 0)
    funnel = [*_funnel(result, rows, suitable, enough, able)]
    if refusing is not None and (result.kind == GPU or refusing.about == _SWITCHES):
        funnel.append(refusing)
    total = int(result.devices.sum())
    smallest = tuple(_blocking(result, rows, suitable)) if not enough.any() else ()
    possible = bool(enough.any())
    return Request(
        pod.key, result.kind, result.wanted, total, tuple(funnel), smallest, (), (), possible=possible
    )


def _funnel(
    result: TypeResult, rows: DeviceRows, suitable: Mask, enough: Mask, able: Mask | None
) -> Iterator[Step]:
    alive = result.devices
    for name, passed in result.gates:
        alive = alive & passed
        yield Step(KINDS[name], name, int(alive.sum()))
    if not suitable.all():
        alive = alive & _on(suitable, rows)
        yield Step(Kind.NODES, _SUITABLE, int(alive.sum()))
    amount = "all devices" if result.wanted is None else counted(result.wanted, "device")
    alive = alive & _on(enough, rows)
    yield Step(Kind.ENOUGH, f"{amount} on one node", int(alive.sum()), nodes=int(enough.sum()))
    if able is not None:
        alive = alive & _on(able, rows)
        yield Step(Kind.TOGETHER, "all types on one node", int(alive.sum()), nodes=int(able.sum()))


def _blocking(result: TypeResult, rows: DeviceRows, suitable: Mask) -> Iterator[tuple[str, ...]]:
    """The smallest sets of gates that alone leave no node with enough devices; () if no node has so many."""
    gates = [*result.gates, (_SUITABLE, _on(suitable, rows))]
    gates = [(name, passed) for name, passed in gates if not passed[result.devices].all()]

    def excludes(chosen: Sequence[tuple[str, Mask]]) -> bool:
        alive = result.devices.copy()
        for _, passed in chosen:
            alive &= passed
        return not bool((np.bincount(rows.owner[alive], minlength=len(suitable)) >= result.needed).any())

    for size in range(len(gates) + 1):
        found = [chosen for chosen in combinations(gates, size) if excludes(chosen)]
        if found:
            yield from (tuple(name for name, _ in chosen) for chosen in found)
            return


def _near_misses(
    pod: Pod, demand: Demand, fleet: Fleet, results: Sequence[TypeResult], suitable: Mask
) -> Iterator[NearMiss]:
    """The suitable nodes that lack the fewest devices, then those by name."""
    numbers = np.flatnonzero(suitable)
    lacking = np.sum([result.lacking[numbers] for result in results], axis=0)
    names = np.array(fleet.names, dtype=np.str_)[numbers]
    owner = fleet.columns.owner
    for number in numbers[np.lexsort((names, lacking))][:MOST_NODES].tolist():
        name, lacks = fleet.names[number], []
        for result in results:
            short = int(result.lacking[number])
            if short:
                mine = np.flatnonzero(result.devices & (owner == number))
                rows = closest(mine, result.gates, min(short, MOST_DEVICES))
                why = [describe(row, result.gates, fleet) for row in rows]
                why = why or [f"the node has no other {result.kind} device"]
                have, needed = int(result.have[number]), int(result.needed[number])
                lacks.append(Lack(pod.key, result.kind, have, needed, tuple(why)))
        exact = fleet.decide(demand, name) if not lacks else {}
        yield NearMiss(name, tuple(lacks), exact.message if isinstance(exact, Failure) else "")


def _on(nodes: Mask, rows: DeviceRows) -> Mask:
    """(R,) devices of these machines."""
    found: Mask = (rows.owner >= 0) & nodes[rows.owner] if len(nodes) else np.zeros(len(rows.owner), np.bool_)
    return found
