"""Which machines might serve a pod: one pass over all devices of all machines."""

from dataclasses import dataclass

import numpy as np

from kernels.shares import enough, group_held, share_fits
from kernels.types import Amounts, Mask
from reconciler.koordinator.annotations import DEVICE_LEVEL, PCIE_LEVEL
from reconciler.koordinator.columns import Columns, Part, amounts
from reconciler.koordinator.demand import Demand
from reconciler.koordinator.instances import asked
from reconciler.koordinator.names import GPU, TYPES
from reconciler.koordinator.shares import LIMIT


def feasible(columns: Columns | Part, demand: Demand, lenient: Mask, *, upstream: bool) -> Mask:
    """Machines that the exact choice need look at: it refuses every other one.

    lenient (N,)  machines on which partitions of GPUs are not compared with what is asked
    ->      (N,)
    """
    result = np.ones(len(lenient), dtype=np.bool_)
    for kind in demand.requests:
        matching = _matching(columns, demand, kind)
        wanted = asked(demand, kind, upstream=upstream)
        if wanted.of_all:
            counted = matching & (columns.health | upstream)
            needed: Amounts = np.maximum(np.bincount(columns.owner[counted], minlength=len(lenient)), 1)
        else:
            needed = np.full(len(lenient), min(wanted.instance.count, LIMIT), dtype=np.int64)
        usable = matching & _open(columns, demand, kind, upstream=upstream)
        each = amounts(wanted.instance.each)
        fitting = usable & share_fits(columns.free, columns.reported, columns.some, each)
        serves = enough(fitting, columns.owner, needed)
        if kind == GPU and upstream and not wanted.instance.shared:
            serves |= lenient & enough(usable & columns.some, columns.owner, np.ones_like(needed))
        result &= serves
    return result


@dataclass(frozen=True, slots=True)
class KindCount:
    """Devices of one type that pass each test and all before it."""

    kind: str
    wanted: int | None
    """On one machine; None is all that match"""
    gates: tuple[tuple[str, int], ...]


def counts(columns: Columns, demand: Demand, *, upstream: bool) -> tuple[KindCount, ...]:
    """What each test leaves over of the devices of all machines, for people who wonder."""
    found = []
    for kind in demand.requests:
        wanted = asked(demand, kind, upstream=upstream)
        every = (columns.kind == TYPES.index(kind)) & (columns.owner >= 0)
        matching = _matching(columns, demand, kind)
        healthy = matching & columns.health
        is_open = healthy & _open(columns, demand, kind, upstream=upstream)
        each = amounts(wanted.instance.each)
        fitting = is_open & share_fits(columns.free, columns.reported, columns.some, each)
        gates = (
            ("type", every), ("selector", matching), ("health", healthy),
            ("exclusiveness and virtual functions", is_open), ("free amounts", fitting),
        )  # fmt: skip
        count = None if wanted.of_all else wanted.instance.count
        found.append(KindCount(kind, count, tuple((name, int(mask.sum())) for name, mask in gates)))
    return tuple(found)


def _matching(columns: Columns | Part, demand: Demand, kind: str) -> Mask:
    """Devices of a type that the hint's selector matches."""
    mine: Mask = (columns.kind == TYPES.index(kind)) & (columns.owner >= 0)
    selector = demand.hint(kind).selector
    return mine if selector is None else mine & columns.labels.matching(selector)[columns.label]


def _open(columns: Columns | Part, demand: Demand, kind: str, *, upstream: bool) -> Mask:
    """Devices with a virtual function left, if one is needed, from which nobody keeps the pod out."""
    hint = demand.hint(kind)
    is_open = np.ones(len(columns.owner), dtype=np.bool_)
    if hint.vf_selector is not None:
        is_open &= columns.vfs > 0
    if upstream:
        return is_open
    is_open &= ~columns.closed
    if hint.exclusive_policy == DEVICE_LEVEL:
        is_open &= ~columns.held
    elif hint.exclusive_policy == PCIE_LEVEL:
        is_open &= ~group_held(columns.held, columns.pcie, len(columns.pcie))
    return is_open
