"""Tests of all devices of all machines at once: which machines may serve a pod, and what the others lack."""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from kernels.exclusion import enough, group_held, largest_group, may_serve_together, share_fits
from kernels.types import Amounts, Codes, Mask
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Gate, RequestCount
from reconciler.plugins.koordinator.annotations import DEVICE_LEVEL, PCIE_LEVEL
from reconciler.plugins.koordinator.choice import OUT_OF_SCOPE, partitions_alone
from reconciler.plugins.koordinator.columns import DeviceRows, amounts
from reconciler.plugins.koordinator.decision import JOINT_VIOLATION
from reconciler.plugins.koordinator.demand import Demand, Failure, Status, leading_type, type_demand
from reconciler.plugins.koordinator.machine import REQUIRED
from reconciler.plugins.koordinator.vocabulary import GPU, LIMIT, TYPES, LabelSelector


def of_type(rows: DeviceRows, kind: str) -> Mask:
    """(R,) devices of a type; False for unused rows."""
    mine: Mask = (rows.kind == TYPES.index(kind)) & (rows.owner >= 0)
    return mine


def matching(rows: DeviceRows, demand: Demand, kind: str) -> Mask:
    """(R,) devices of a type that the hint's selector matches."""
    mine = of_type(rows, kind)
    selector = demand.hint(kind).selector
    return mine if selector is None else mine & rows.labels.matching(selector)[rows.label]


def with_function(rows: DeviceRows, demand: Demand, kind: str) -> Mask:
    """(R,) devices with a virtual function that the hint's vfSelector matches, free or not."""
    return _with_function(rows, demand, kind, rows.functions_of)


def with_free_function(rows: DeviceRows, demand: Demand, kind: str) -> Mask:
    """(R,) devices with a free virtual function that the hint's vfSelector matches."""
    return _with_function(rows, demand, kind, rows.free_functions_of)


def _with_function(rows: DeviceRows, demand: Demand, kind: str, labels: np.ndarray) -> Mask:
    selector = demand.hint(kind).vf_selector
    if selector is None:
        return np.ones(len(rows.owner), dtype=np.bool_)
    return rows.function_labels.matching(selector)[labels]


def not_excluded(rows: DeviceRows, demand: Demand, kind: str) -> Mask:
    """(R,) devices that no exclusive use keeps from the pod, neither its own nor that of a holder."""
    if demand.upstream:
        return np.ones(len(rows.owner), dtype=np.bool_)
    policy = demand.hint(kind).exclusive_policy
    found: Mask = ~rows.closed
    if policy == DEVICE_LEVEL:
        found = found & ~rows.held
    elif policy == PCIE_LEVEL:
        # Without a known switch, no device is known to be alone on it.
        found = found & (rows.pcie >= 0) & ~group_held(rows.held, rows.pcie, len(rows.pcie))
    return found


def counts(rows: DeviceRows, demand: Demand, pod: ObjectKey) -> tuple[RequestCount, ...]:
    """How many devices of all machines pass each test and all before it, by type."""
    found = []
    for kind in demand.requests:
        wanted = type_demand(demand, kind)
        left, gates = of_type(rows, kind), []
        for name, passed in gates_of(rows, demand, kind):
            left = left & passed
            gates.append(Gate(name, int(left.sum())))
        found.append(RequestCount(pod, kind, None if wanted.of_all else wanted.count, tuple(gates)))
    return tuple(found)


TYPE_TEST, SELECTOR_TEST, HEALTH_TEST, SIZE_TEST = "type", "selector", "health", "size"
FUNCTIONS_TEST, EXCLUSIVE_TEST = "matching virtual functions", "exclusive use"
FREE_FUNCTIONS_TEST, FREE_TEST = "free virtual functions", "free amounts"


def gates_of(rows: DeviceRows, demand: Demand, kind: str) -> Iterator[tuple[str, Mask]]:
    """The name of each test and (R,) the devices that pass it, in the order of reports.

    Tests of virtual functions appear only if the pod needs one.
    """
    each = amounts(type_demand(demand, kind).each)
    functions = demand.hint(kind).vf_selector is not None
    yield TYPE_TEST, of_type(rows, kind)
    yield SELECTOR_TEST, matching(rows, demand, kind)
    yield HEALTH_TEST, rows.health
    if functions:
        yield FUNCTIONS_TEST, with_function(rows, demand, kind)
    yield SIZE_TEST, share_fits(rows.total, rows.reported, np.any(rows.total > 0, axis=1), each)
    yield EXCLUSIVE_TEST, not_excluded(rows, demand, kind)
    if functions:
        yield FREE_FUNCTIONS_TEST, with_free_function(rows, demand, kind)
    yield FREE_TEST, share_fits(rows.free, rows.reported, rows.some, each)


class Verdict(IntEnum):
    """The result of the filter for one machine."""

    OPEN = 0
    """The exact decision must be tried"""
    TOO_FEW = 1
    OUT_OF_SCOPE = 2
    """It has enough GPUs, but not within one scope of the required level"""
    APART = 3
    """It has enough devices, but not on the same switches"""


WHY: Mapping[Verdict, Failure] = {Verdict.OUT_OF_SCOPE: OUT_OF_SCOPE, Verdict.APART: JOINT_VIOLATION}
"""The result of the exact decision"""


class Tables(NamedTuple):
    """Which machines have partition tables."""

    listed: Mask
    """(N,) has a table"""
    missing: Mask
    """(N,) allocates only partitions, but has no table"""

    def one(self, number: int) -> "Tables":
        """The values of one machine."""
        return Tables(self.listed[number : number + 1], self.missing[number : number + 1])


def feasible(rows: DeviceRows, demand: Demand, tables: Tables) -> Codes:
    """(N,) the Verdict of each machine. The exact decision fails on every machine that is not OPEN."""
    size = len(tables.listed)
    serves_all = np.ones(size, dtype=np.bool_)
    fits: dict[str, Mask] = {}
    counts: dict[str, Amounts] = {}
    for kind in demand.requests:
        of_kind = matching(rows, demand, kind)
        wanted = type_demand(demand, kind)
        if wanted.of_all:
            counted = of_kind & (rows.health | demand.upstream)
            needed: Amounts = np.maximum(np.bincount(rows.owner[counted], minlength=size), 1)
        else:
            needed = np.full(size, min(wanted.count, LIMIT), dtype=np.int64)
        usable = of_kind & not_excluded(rows, demand, kind)
        if demand.hint(kind).vf_selector is not None:
            usable &= with_free_function(rows, demand, kind)
        each = amounts(wanted.each)
        fitting = usable & share_fits(rows.free, rows.reported, rows.some, each)
        serves = enough(fitting, rows.owner, needed)
        if kind == GPU and demand.upstream and not wanted.shared:
            # The release does not compare partitions with the requested shares.
            serves |= tables.listed & enough(usable & rows.some, rows.owner, np.ones_like(needed))
        serves_all &= serves
        fits[kind], counts[kind] = fitting, needed
    found = np.where(serves_all, Verdict.OPEN, Verdict.TOO_FEW).astype(np.int32)
    if (demand.gpu is not None and demand.gpu.shared) or not serves_all.any():
        return found  # for parts of GPUs the exact decision fails earlier, for other reasons
    plain = ~tables.listed & ~tables.missing & (not partitions_alone(demand))
    scoped = demand.hint(GPU).required_topology_scope in REQUIRED  # the exact decision tests this first
    if demand.joint and demand.same_pcie and not demand.upstream and not scoped:
        found[serves_all & (plain | tables.listed) & ~_on_switches(rows, demand, fits, counts)] = (
            Verdict.APART
        )
    if GPU in fits:
        found[serves_all & plain & ~_within_scope(rows, demand, fits[GPU], counts[GPU])] = (
            Verdict.OUT_OF_SCOPE
        )
    return found


def _within_scope(rows: DeviceRows, demand: Demand, fitting: Mask, needed: Amounts) -> Mask:
    """Machines with enough GPUs within one scope of the required level, or without a known topology."""
    groups = {"PCIe": rows.switch, "NUMANode": rows.numa}.get(demand.hint(GPU).required_topology_scope)
    if groups is None:
        return np.ones(len(needed), dtype=np.bool_)
    nowhere = (rows.kind == TYPES.index(GPU)) & (rows.owner >= 0) & (rows.numa < 0)
    untold = np.bincount(rows.owner[nowhere], minlength=len(needed)) > 0
    return untold | (largest_group(fitting, groups, rows.owner, len(needed)) >= needed)


def _on_switches(
    rows: DeviceRows, demand: Demand, fits: Mapping[str, Mask], counts: Mapping[str, Amounts]
) -> Mask:
    """Machines with enough devices of the leading type on switches that also have all other types."""
    lead = leading_type(demand)
    further = [kind for kind in demand.joint if kind != lead]
    wanted = [counts[kind] for kind in further]
    beside = [fits[kind] for kind in further]
    return may_serve_together(fits[lead], beside, rows.switch, rows.owner, counts[lead], wanted)


class Lack(IntEnum):
    """What a machine lacks even if no pod holds any of its devices. A later value is a more basic lack."""

    NOTHING = 0
    """It may have enough devices once pods end"""
    HEALTH = 1
    """It may have enough devices once they are healthy"""
    SCOPE = 2
    SWITCH = 3
    ALONE = 4
    """It does not say on which switches its devices are, and the pod wants to be alone on one"""
    SIZE = 5
    NUMBER = 6
    FUNCTION = 7
    MATCH = 8
    TYPE = 9


_VERDICTS = {Verdict.OUT_OF_SCOPE: Lack.SCOPE, Verdict.APART: Lack.SWITCH}
_WIDTH = len(Lack)

WAITING = Failure("insufficient-devices", Status.LATER, "with too few free devices")
SICK = Failure("unhealthy-devices", Status.NEVER, "with enough devices only if all were healthy")


def outlook(rows: DeviceRows, demand: Demand, tables: Tables) -> Codes:
    """(N,) the code of what each machine lacks; `failure` says what a code means."""
    free = replace(
        rows,
        free=rows.total,
        some=np.any(rows.total > 0, axis=1),
        free_functions_of=rows.functions_of,
        held=np.zeros_like(rows.held),
        closed=np.zeros_like(rows.closed),
    )
    # The amounts of an unhealthy device are unknown here: it may have enough.
    healthy = replace(
        free,
        free=np.where(rows.health[:, np.newaxis], rows.total, LIMIT),
        some=free.some | ~rows.health,
        health=np.ones_like(rows.health),
    )
    found = np.zeros(len(tables.listed), dtype=np.int32)
    found[feasible(free, demand, tables) != Verdict.OPEN] = Lack.HEALTH
    at_best = feasible(healthy, demand, tables)
    for verdict, lack in _VERDICTS.items():
        found[at_best == verdict] = lack
    short = at_best == Verdict.TOO_FEW
    if short.any():
        for code, lacking in _shortages(healthy, demand, len(found)):
            found[short & lacking & (found % _WIDTH <= code % _WIDTH)] = code
    return found


def _shortages(rows: DeviceRows, demand: Demand, size: int) -> Iterator[tuple[int, Mask]]:
    """A code, and (N,) the machines that lack this of a type. The more basic lack comes later."""
    for kind in reversed(list(demand.requests)):
        wanted = type_demand(demand, kind)
        every, matched = of_type(rows, kind), matching(rows, demand, kind)
        functional = matched & with_function(rows, demand, kind)
        large = functional & share_fits(rows.free, rows.reported, rows.some, amounts(wanted.each))

        def counted(mask: Mask) -> Amounts:
            return np.bincount(rows.owner[mask], minlength=size)

        needed = np.maximum(counted(matched), 1) if wanted.of_all else min(wanted.count, LIMIT)
        base = TYPES.index(kind) * _WIDTH
        if not demand.upstream and demand.hint(kind).exclusive_policy == PCIE_LEVEL:
            yield base + Lack.ALONE, counted(large & (rows.pcie >= 0)) < needed
        yield base + Lack.SIZE, counted(large) < needed
        yield base + Lack.NUMBER, counted(functional) < needed
        yield base + Lack.FUNCTION, counted(functional) == 0
        yield base + Lack.MATCH, counted(matched) == 0
        yield base + Lack.TYPE, counted(every) == 0


def lack_failure(code: int, demand: Demand) -> Failure:
    """The failure for a code. Its message follows a number of nodes."""
    number, lack = divmod(code, _WIDTH)
    kind, never = TYPES[number], Status.NEVER
    match Lack(lack):
        case Lack.NOTHING:
            return WAITING
        case Lack.HEALTH:
            return SICK
        case Lack.SCOPE:
            why = f"with too few GPUs within any scope {demand.hint(GPU).required_topology_scope}"
            return Failure("topology-scope-impossible", never, why)
        case Lack.SWITCH:
            why = f"with too few {', '.join(demand.joint)} devices on common PCIe switches"
            return Failure("joint-scope-impossible", never, why)
        case Lack.ALONE:
            return Failure(f"switch-unknown:{kind}", never, f"with too few {kind} devices on known switches")
        case Lack.SIZE | Lack.NUMBER:
            why = _too_few(Lack(lack), kind, demand)
            return Failure(f"exceeds-node-capacity:{kind}", never, why)
        case Lack.FUNCTION:
            which = "" if demand.hint(kind).vf_selector == LabelSelector() else " that vfSelector matches"
            return Failure(f"no-virtual-functions:{kind}", never, f"without {kind} virtual functions{which}")
        case Lack.MATCH:
            why = f"without {kind} devices that the selector matches"
            return Failure(f"no-matching-devices:{kind}", never, why)
        case Lack.TYPE:
            return Failure(f"no-devices-of-type:{kind}", never, f"without {kind} devices")


def _too_few(lack: Lack, kind: str, demand: Demand) -> str:
    wanted, hint = type_demand(demand, kind), demand.hint(kind)
    if wanted.of_all:
        some = "are too small" if lack is Lack.SIZE else "have no matching virtual function"
        return f"with {kind} devices of which some {some}"
    if lack is Lack.SIZE and wanted.count == 1:
        return f"without {kind} devices that are large enough"
    some = f"with fewer than {wanted.count} {kind} devices"
    if lack is Lack.SIZE:
        return f"{some} that are large enough"
    selected = " that the selector matches" if hint.selector is not None else ""
    return f"{some}{selected}{' with matching virtual functions' if hint.vf_selector is not None else ''}"


_FOR_GOOD: Mapping[str, Failure] = {
    "insufficient-devices": Failure(
        "exceeds-node-capacity", Status.NEVER, "with too few devices that can be used together"
    ),
    "topology-scope-unsatisfied": Failure(
        "topology-scope-impossible", Status.NEVER, "with too few GPUs within any such scope"
    ),
    "joint-scope-violation": Failure(
        "joint-scope-impossible", Status.NEVER, "with too few devices on common PCIe switches"
    ),
    "no-feasible-partition": Failure(
        "partition-impossible", Status.NEVER, "without a partition that the pod accepts"
    ),
}


def for_good(found: Failure) -> Failure:
    """The failure of the exact decision on a machine of which all devices are healthy and free."""
    return _FOR_GOOD.get(found.reason.partition(":")[0], found)
