"""Partition tables that are honored, as gates: which devices are in a partition that could be given."""

from collections.abc import Callable

import numpy as np

from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.alignment.partitions import PartitionedRequest
from reconciler.state.devices.pools.fleet import Fleet

ABOUT = "in a partition that may be given"
MOST_DEVICES = 3
"""Missing devices of a partition that are told."""


def passes(request: PartitionedRequest, fleet: Fleet) -> Mask:
    """(D,) devices of partitions that will do and are whole."""
    passed, picks = np.zeros(fleet.size, dtype=np.bool_), _picks(request)
    of_whole = request.whole[:, picks].astype(np.int32) @ request.layout.members[picks].astype(np.int32) > 0
    rows = request.layout.rows[of_whole]
    passed[rows[rows >= 0]] = True
    return passed


def never(request: PartitionedRequest) -> str:
    """Why no partition of the table will ever do; empty if one might."""
    if len(_picks(request)):
        return ""
    sizes = np.unique(request.layout.sizes)
    if request.size not in sizes:
        listed = ", ".join(map(str, sizes.tolist()))
        return f"the table lists no partition of {request.size} devices, but of {listed}"
    return f"no partition of {request.size} devices in the table has the bandwidth asked for"


def lacking(request: PartitionedRequest, free: Mask, wide: int) -> Amounts:
    """(wide,) by code of the node, how many devices the partition lacks that comes closest there.

    free   (D,) what the request could get
    """
    least = np.full(wide, request.size, dtype=np.int64)
    picks = _picks(request)
    if len(picks) and len(request.layout.pools):
        of_pool = request.layout.missing(free)[:, picks].min(axis=1)
        everywhere = of_pool[request.layout.node < 0].min(initial=request.size)
        local = request.layout.node >= 0
        np.minimum.at(least, request.layout.node[local], of_pool[local])
        least = np.minimum(least, everywhere)
    return least


def closest(request: PartitionedRequest, free: Mask, code: int, why: Callable[[int], str]) -> str:
    """The partition of a node, by its code, that lacks fewest devices, and what stands against those."""
    layout, picks = request.layout, _picks(request)
    pools = np.flatnonzero((layout.node == code) | (layout.node < 0))
    if not len(pools) or not len(picks):
        return never(request) or f"none of its pools has a partition of {request.size} devices"
    missing = layout.missing(free)[np.ix_(pools, picks)]
    pool, pick = np.unravel_index(missing.argmin(), missing.shape)
    members = np.flatnonzero(layout.members[picks[pick]])
    rows = layout.rows[pools[pool], members]
    names = [layout.names[n] for n in members.tolist()]
    told = {
        why(row) if row >= 0 else f"there is no {name}": None
        for row, name in zip(rows.tolist(), names, strict=True)
        if row < 0 or not free[row]
    }
    have = len(names) - int(missing.min())
    head = f"{have} of {len(names)} of the partition {', '.join(names)} can be had"
    return "; ".join([head, *list(told)[:MOST_DEVICES]])


def _picks(request: PartitionedRequest) -> Rows:
    """(p,) the partitions that will do."""
    return np.concatenate([*request.levels, np.zeros(0, dtype=np.intp)])
