"""Honored partition tables as gates: which devices are in a partition that can be allocated."""

from collections.abc import Callable

import numpy as np

from kernels.distinct import distinct
from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.alignment.partitions import PartitionedRequest
from reconciler.state.devices.pools.fleet import Fleet

ABOUT = "in a partition that can be allocated"
MOST_DEVICES = 3
"""Maximum missing devices of a partition that are described."""


def passes(request: PartitionedRequest, fleet: Fleet) -> Mask:
    """(D,) devices of eligible partitions that are completely free."""
    passed, picks = np.zeros(fleet.size, dtype=np.bool_), _picks(request)
    of_whole = request.whole[:, picks].astype(np.int32) @ request.layout.members[picks].astype(np.int32) > 0
    rows = request.layout.rows[of_whole]
    passed[rows[rows >= 0]] = True
    return passed


def impossible(request: PartitionedRequest) -> str:
    """Why no partition of the table can ever be allocated; empty if one can."""
    if len(_picks(request)):
        return ""
    devices = _devices(request)
    sizes = distinct(request.layout.sizes)
    if request.size not in sizes:
        listed = ", ".join(map(str, sizes.tolist()))
        return f"the table lists no partition of {devices}, only of {listed}"
    return f"no partition of {devices} in the table has the requested bandwidth"


def lacking(request: PartitionedRequest, free: Mask, code_count: int) -> Amounts:
    """(code_count,) by code of the node: how many devices the closest partition of the node lacks.

    free   (D,) devices that the request can get
    """
    least = np.full(code_count, request.size, dtype=np.int64)
    picks = _picks(request)
    if len(picks) and len(request.layout.pools):
        of_pool = request.layout.missing(free)[:, picks].min(axis=1)
        everywhere = of_pool[request.layout.node < 0].min(initial=request.size)
        local = request.layout.node >= 0
        np.minimum.at(least, request.layout.node[local], of_pool[local])
        least = np.minimum(least, everywhere)
    return least


def closest(request: PartitionedRequest, free: Mask, code: int, failure: Callable[[int], str]) -> str:
    """The partition of a node that lacks the fewest devices, and why those fail.

    code      of the node
    failure   row -> why the device fails
    """
    layout, picks = request.layout, _picks(request)
    pools = np.flatnonzero((layout.node == code) | (layout.node < 0))
    if not len(pools) or not len(picks):
        return impossible(request) or f"the pools of the node have no partition of {_devices(request)}"
    missing = layout.missing(free)[np.ix_(pools, picks)]
    pool, pick = np.unravel_index(missing.argmin(), missing.shape)
    members = np.flatnonzero(layout.members[picks[pick]])
    rows = layout.rows[pools[pool], members]
    names = [layout.names[n] for n in members.tolist()]
    failures = {
        failure(row) if row >= 0 else f"{name} does not exist": None
        for row, name in zip(rows.tolist(), names, strict=True)
        if row < 0 or not free[row]
    }
    have = len(names) - int(missing.min())
    head = f"{have} of {len(names)} devices of partition {', '.join(names)} can be allocated"
    return "; ".join([head, *list(failures)[:MOST_DEVICES]])


def _devices(request: PartitionedRequest) -> str:
    return f"{request.size} device{'' if request.size == 1 else 's'}"


def _picks(request: PartitionedRequest) -> Rows:
    """(p,) the eligible partitions."""
    return np.concatenate([*request.levels, np.zeros(0, dtype=np.intp)])
