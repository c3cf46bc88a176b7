"""What a pod needs of each single device, tested for all devices at once."""

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from kernels.shares import group_held, share_fits
from kernels.types import Mask
from reconciler.allocation.koordinator.demand import Demand
from reconciler.allocation.koordinator.instances import type_demand
from reconciler.api.koordinator.annotations import DEVICE_LEVEL, PCIE_LEVEL
from reconciler.api.koordinator.names import TYPES
from reconciler.state.koordinator.columns import DeviceRows, amounts


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


def not_excluded(rows: DeviceRows, demand: Demand, kind: str, *, upstream: bool) -> Mask:
    """(R,) devices that no exclusive use keeps from the pod, neither its own nor that of a holder."""
    if upstream:
        return np.ones(len(rows.owner), dtype=np.bool_)
    policy = demand.hint(kind).exclusive_policy
    found: Mask = ~rows.closed
    if policy == DEVICE_LEVEL:
        found = found & ~rows.held
    elif policy == PCIE_LEVEL:
        found = found & ~group_held(rows.held, rows.pcie, len(rows.pcie))
    return found


class KindCount(Struct, frozen=True):
    """Devices of one type that pass each test and all before it."""

    kind: str
    wanted: int | None
    """Devices on one machine; None is "all that match\""""
    gates: tuple[tuple[str, int], ...]


def counts(rows: DeviceRows, demand: Demand, *, upstream: bool) -> tuple[KindCount, ...]:
    """How many devices of all machines pass each test, by type."""
    found = []
    for kind in demand.requests:
        wanted = type_demand(demand, kind, upstream=upstream)
        left, gates = of_type(rows, kind), []
        for name, passed in gates_of(rows, demand, kind, upstream=upstream):
            left = left & passed
            gates.append((name, int(left.sum())))
        found.append(KindCount(kind, None if wanted.of_all else wanted.instance.count, tuple(gates)))
    return tuple(found)


TYPE, SELECTOR, HEALTH, SIZE = "type", "selector", "health", "size"
FUNCTIONS, EXCLUSIVE = "matching virtual functions", "exclusive use"
FREE_FUNCTIONS, FREE = "free virtual functions", "free amounts"


def gates_of(rows: DeviceRows, demand: Demand, kind: str, *, upstream: bool) -> Iterator[tuple[str, Mask]]:
    """The name of each test and (R,) the devices that pass it, in the order of reports.

    Tests of virtual functions appear only if the pod needs one.
    """
    each = amounts(type_demand(demand, kind, upstream=upstream).instance.each)
    functions = demand.hint(kind).vf_selector is not None
    yield TYPE, of_type(rows, kind)
    yield SELECTOR, matching(rows, demand, kind)
    yield HEALTH, rows.health
    if functions:
        yield FUNCTIONS, with_function(rows, demand, kind)
    yield SIZE, share_fits(rows.total, rows.reported, np.any(rows.total > 0, axis=1), each)
    yield EXCLUSIVE, not_excluded(rows, demand, kind, upstream=upstream)
    if functions:
        yield FREE_FUNCTIONS, with_free_function(rows, demand, kind)
    yield FREE, share_fits(rows.free, rows.reported, rows.some, each)
