"""Filters machines for a pod: one pass over all devices of all machines."""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from kernels.shares import enough, largest_group, may_serve_together, share_fits
from kernels.types import Amounts, Codes, Mask
from reconciler.allocation.koordinator.demand import Demand, leading_type
from reconciler.allocation.koordinator.device_tests import matching, not_excluded, with_free_function
from reconciler.allocation.koordinator.failure import Failure
from reconciler.allocation.koordinator.gpus import OUT_OF_SCOPE, partitions_alone
from reconciler.allocation.koordinator.instances import type_demand
from reconciler.allocation.koordinator.joint_release import JOINT_VIOLATION
from reconciler.api.koordinator.amounts import LIMIT
from reconciler.api.koordinator.names import GPU, TYPES
from reconciler.state.koordinator.columns import DeviceRows, amounts
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


def feasible(rows: DeviceRows, demand: Demand, tables: Tables, *, upstream: bool) -> Codes:
    """(N,) the Verdict of each machine. The exact decision fails on every machine that is not OPEN."""
    size = len(tables.listed)
    serves_all = np.ones(size, dtype=np.bool_)
    fits: dict[str, Mask] = {}
    counts: dict[str, Amounts] = {}
    for kind in demand.requests:
        of_kind = matching(rows, demand, kind)
        wanted = type_demand(demand, kind, upstream=upstream)
        if wanted.of_all:
            counted = of_kind & (rows.health | upstream)
            needed: Amounts = np.maximum(np.bincount(rows.owner[counted], minlength=size), 1)
        else:
            needed = np.full(size, min(wanted.instance.count, LIMIT), dtype=np.int64)
        usable = of_kind & not_excluded(rows, demand, kind, upstream=upstream)
        if demand.hint(kind).vf_selector is not None:
            usable &= with_free_function(rows, demand, kind)
        each = amounts(wanted.instance.each)
        fitting = usable & share_fits(rows.free, rows.reported, rows.some, each)
        serves = enough(fitting, rows.owner, needed)
        if kind == GPU and upstream and not wanted.instance.shared:
            # The release does not compare partitions with the requested shares.
            serves |= tables.listed & enough(usable & rows.some, rows.owner, np.ones_like(needed))
        serves_all &= serves
        fits[kind], counts[kind] = fitting, needed
    found = np.where(serves_all, Verdict.OPEN, Verdict.TOO_FEW).astype(np.int32)
    if (demand.gpu is not None and demand.gpu.shared) or not serves_all.any():
        return found  # for parts of GPUs the exact decision fails earlier, for other reasons
    plain = ~tables.listed & ~tables.missing & (not partitions_alone(demand.partition, upstream=upstream))
    scoped = demand.hint(GPU).required_topology_scope in REQUIRED  # the exact decision tests this first
    if demand.joint and demand.same_pcie and not upstream and not scoped:
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
