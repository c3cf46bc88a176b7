"""What a machine without the devices for a pod lacks: free devices, healthy ones, or devices at all.

Nothing here depends on what pods hold, so it is computed again only if a Device object changes.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum

import numpy as np
from msgspec.structs import replace

from kernels.shares import share_fits
from kernels.types import Amounts, Codes, Mask
from reconciler.allocation.koordinator.demand import Demand
from reconciler.allocation.koordinator.device_tests import matching, of_type, with_function
from reconciler.allocation.koordinator.failure import Failure, Status
from reconciler.allocation.koordinator.feasible import Tables, Verdict, feasible
from reconciler.allocation.koordinator.instances import type_demand
from reconciler.api.koordinator.amounts import LIMIT
from reconciler.api.koordinator.names import GPU, TYPES
from reconciler.api.koordinator.selectors import LabelSelector
from reconciler.state.koordinator.columns import DeviceRows, amounts


class Lack(IntEnum):
    """What a machine lacks even if no pod holds any of its devices. A later value is a more basic lack."""

    NOTHING = 0
    """It may have enough devices once pods end"""
    HEALTH = 1
    """It may have enough devices once they are healthy"""
    SCOPE = 2
    SWITCH = 3
    SIZE = 4
    NUMBER = 5
    FUNCTION = 6
    MATCH = 7
    TYPE = 8


_VERDICTS = {Verdict.OUT_OF_SCOPE: Lack.SCOPE, Verdict.APART: Lack.SWITCH}
_WIDTH = len(Lack)

WAITING = Failure("insufficient-devices", Status.LATER, "with too few free devices")
SICK = Failure("unhealthy-devices", Status.NEVER, "with enough devices only if all were healthy")


def outlook(rows: DeviceRows, demand: Demand, tables: Tables, *, upstream: bool) -> Codes:
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
    found[feasible(free, demand, tables, upstream=upstream) != Verdict.OPEN] = Lack.HEALTH
    at_best = feasible(healthy, demand, tables, upstream=upstream)
    for verdict, lack in _VERDICTS.items():
        found[at_best == verdict] = lack
    short = at_best == Verdict.TOO_FEW
    if short.any():
        for code, lacking in _shortages(healthy, demand, len(found), upstream=upstream):
            found[short & lacking & (found % _WIDTH <= code % _WIDTH)] = code
    return found


def _shortages(rows: DeviceRows, demand: Demand, size: int, *, upstream: bool) -> Iterator[tuple[int, Mask]]:
    """A code, and (N,) the machines that lack this of a type. The more basic lack comes later."""
    for kind in reversed(list(demand.requests)):
        wanted = type_demand(demand, kind, upstream=upstream)
        every, matched = of_type(rows, kind), matching(rows, demand, kind)
        functional = matched & with_function(rows, demand, kind)
        large = functional & share_fits(rows.free, rows.reported, rows.some, amounts(wanted.instance.each))

        def counted(mask: Mask) -> Amounts:
            return np.bincount(rows.owner[mask], minlength=size)

        needed = np.maximum(counted(matched), 1) if wanted.of_all else min(wanted.instance.count, LIMIT)
        base = TYPES.index(kind) * _WIDTH
        yield base + Lack.SIZE, counted(large) < needed
        yield base + Lack.NUMBER, counted(functional) < needed
        yield base + Lack.FUNCTION, counted(functional) == 0
        yield base + Lack.MATCH, counted(matched) == 0
        yield base + Lack.TYPE, counted(every) == 0


def failure(code: int, demand: Demand, *, upstream: bool) -> Failure:
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
        case Lack.SIZE | Lack.NUMBER:
            why = _too_few(Lack(lack), kind, demand, upstream=upstream)
            return Failure(f"exceeds-node-capacity:{kind}", never, why)
        case Lack.FUNCTION:
            which = "" if demand.hint(kind).vf_selector == LabelSelector() else " that vfSelector matches"
            return Failure(f"no-virtual-functions:{kind}", never, f"without {kind} virtual functions{which}")
        case Lack.MATCH:
            why = f"without {kind} devices that the selector matches"
            return Failure(f"no-matching-devices:{kind}", never, why)
        case Lack.TYPE:
            return Failure(f"no-devices-of-type:{kind}", never, f"without {kind} devices")


def _too_few(lack: Lack, kind: str, demand: Demand, *, upstream: bool) -> str:
    wanted, hint = type_demand(demand, kind, upstream=upstream), demand.hint(kind)
    if wanted.of_all:
        some = "are too small" if lack is Lack.SIZE else "have no matching virtual function"
        return f"with {kind} devices of which some {some}"
    if lack is Lack.SIZE and wanted.instance.count == 1:
        return f"without {kind} devices that are large enough"
    some = f"with fewer than {wanted.instance.count} {kind} devices"
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
