"""Filters machines for a pod: one pass over all devices of all machines."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from kernels.shares import enough, group_held, largest_group, may_serve_together, share_fits
from kernels.types import Amounts, Codes, Mask
from reconciler.allocation.koordinator.demand import Demand, leading_type
from reconciler.allocation.koordinator.failure import Failure
from reconciler.allocation.koordinator.gpus import OUT_OF_SCOPE, partitions_alone
from reconciler.allocation.koordinator.instances import type_demand
from reconciler.allocation.koordinator.joint_release import JOINT_VIOLATION
from reconciler.api.koordinator.amounts import LIMIT
from reconciler.api.koordinator.annotations import DEVICE_LEVEL, PCIE_LEVEL
from reconciler.api.koordinator.names import GPU, TYPES
from reconciler.state.koordinator.columns import Columns, MachineRows, amounts
from reconciler.state.koordinator.tree import REQUIRED


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


def feasible(columns: Columns | MachineRows, demand: Demand, tables: Tables, *, upstream: bool) -> Codes:
    """(N,) the Verdict of each machine. The exact decision fails on every machine that is not OPEN."""
    size = len(tables.listed)
    serves_all = np.ones(size, dtype=np.bool_)
    fits: dict[str, Mask] = {}
    counts: dict[str, Amounts] = {}
    for kind in demand.requests:
        matching = _matching(columns, demand, kind)
        wanted = type_demand(demand, kind, upstream=upstream)
        if wanted.of_all:
            counted = matching & (columns.health | upstream)
            needed: Amounts = np.maximum(np.bincount(columns.owner[counted], minlength=size), 1)
        else:
            needed = np.full(size, min(wanted.instance.count, LIMIT), dtype=np.int64)
        usable = matching & _open(columns, demand, kind, upstream=upstream)
        each = amounts(wanted.instance.each)
        fitting = usable & share_fits(columns.free, columns.reported, columns.some, each)
        serves = enough(fitting, columns.owner, needed)
        if kind == GPU and upstream and not wanted.instance.shared:
            # The release does not compare partitions with the requested shares.
            serves |= tables.listed & enough(usable & columns.some, columns.owner, np.ones_like(needed))
        serves_all &= serves
        fits[kind], counts[kind] = fitting, needed
    found = np.where(serves_all, Verdict.OPEN, Verdict.TOO_FEW).astype(np.int32)
    if (demand.gpu is not None and demand.gpu.shared) or not serves_all.any():
        return found  # for parts of GPUs the exact decision fails earlier, for other reasons
    plain = ~tables.listed & ~tables.missing & (not partitions_alone(demand.partition, upstream=upstream))
    scoped = demand.hint(GPU).required_topology_scope in REQUIRED  # the exact decision tests this first
    if demand.joint and demand.same_pcie and not upstream and not scoped:
        found[serves_all & (plain | tables.listed) & ~_on_switches(columns, demand, fits, counts)] = (
            Verdict.APART
        )
    if GPU in fits:
        found[serves_all & plain & ~_within_scope(columns, demand, fits[GPU], counts[GPU])] = (
            Verdict.OUT_OF_SCOPE
        )
    return found


def _within_scope(columns: Columns | MachineRows, demand: Demand, fitting: Mask, needed: Amounts) -> Mask:
    """Machines with enough GPUs within one scope of the required level, or without a known topology."""
    groups = {"PCIe": columns.switch, "NUMANode": columns.numa}.get(demand.hint(GPU).required_topology_scope)
    if groups is None:
        return np.ones(len(needed), dtype=np.bool_)
    nowhere = (columns.kind == TYPES.index(GPU)) & (columns.owner >= 0) & (columns.numa < 0)
    untold = np.bincount(columns.owner[nowhere], minlength=len(needed)) > 0
    return untold | (largest_group(fitting, groups, columns.owner, len(needed)) >= needed)


def _on_switches(
    columns: Columns | MachineRows, demand: Demand, fits: Mapping[str, Mask], counts: Mapping[str, Amounts]
) -> Mask:
    """Machines with enough devices of the leading type on switches that also have all other types."""
    lead = leading_type(demand)
    further = [kind for kind in demand.joint if kind != lead]
    wanted = [counts[kind] for kind in further]
    beside = [fits[kind] for kind in further]
    return may_serve_together(fits[lead], beside, columns.switch, columns.owner, counts[lead], wanted)


@dataclass(frozen=True, slots=True)
class KindCount:
    """Devices of one type that pass each test and all before it."""

    kind: str
    wanted: int | None
    """Devices on one machine; None is "all that match\""""
    gates: tuple[tuple[str, int], ...]


def counts(columns: Columns, demand: Demand, *, upstream: bool) -> tuple[KindCount, ...]:
    """How many devices of all machines pass each test, for explanations."""
    found = []
    for kind in demand.requests:
        wanted = type_demand(demand, kind, upstream=upstream)
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


def _matching(columns: Columns | MachineRows, demand: Demand, kind: str) -> Mask:
    """Devices of a type that the hint's selector matches."""
    mine: Mask = (columns.kind == TYPES.index(kind)) & (columns.owner >= 0)
    selector = demand.hint(kind).selector
    return mine if selector is None else mine & columns.labels.matching(selector)[columns.label]


def _open(columns: Columns | MachineRows, demand: Demand, kind: str, *, upstream: bool) -> Mask:
    """Devices that are not excluded, with a free virtual function if the pod needs one."""
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
