"""Partition tables that are honored, as gates: which devices are in a partition that could be given."""

from collections.abc import Callable

import numpy as np

from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.alignment.partitions import Kept
from reconciler.state.devices.pools.fleet import Fleet

ABOUT = "in a partition that may be given"
MOST_DEVICES = 3
"""Missing devices of a partition that are told."""


def passes(kept: Kept, fleet: Fleet) -> Mask:
    """(D,) devices of partitions that will do and are whole."""
    passed, picks = np.zeros(fleet.size, dtype=np.bool_), _picks(kept)
    of_whole = kept.whole[:, picks].astype(np.int32) @ kept.laid.members[picks].astype(np.int32) > 0
    rows = kept.laid.rows[of_whole]
    passed[rows[rows >= 0]] = True
    return passed


def never(kept: Kept) -> str:
    """Why no partition of the table will ever do; empty if one might."""
    if len(_picks(kept)):
        return ""
    sizes = np.unique(kept.laid.sizes)
    if kept.size not in sizes:
        listed = ", ".join(map(str, sizes.tolist()))
        return f"the table lists no partition of {kept.size} devices, but of {listed}"
    return f"no partition of {kept.size} devices in the table has the bandwidth asked for"


def lacking(kept: Kept, free: Mask, wide: int) -> Amounts:
    """(wide,) by code of the node, how many devices the partition lacks that comes closest there.

    free   (D,) what the request could get
    """
    least = np.full(wide, kept.size, dtype=np.int64)
    picks = _picks(kept)
    if len(picks) and len(kept.laid.pools):
        of_pool = kept.laid.missing(free)[:, picks].min(axis=1)
        everywhere = of_pool[kept.laid.node < 0].min(initial=kept.size)
        local = kept.laid.node >= 0
        np.minimum.at(least, kept.laid.node[local], of_pool[local])
        least = np.minimum(least, everywhere)
    return least


def closest(kept: Kept, free: Mask, code: int, why: Callable[[int], str]) -> str:
    """The partition of a node, by its code, that lacks fewest devices, and what stands against those."""
    laid, picks = kept.laid, _picks(kept)
    pools = np.flatnonzero((laid.node == code) | (laid.node < 0))
    if not len(pools) or not len(picks):
        return never(kept) or f"none of its pools has a partition of {kept.size} devices"
    missing = laid.missing(free)[np.ix_(pools, picks)]
    pool, pick = np.unravel_index(missing.argmin(), missing.shape)
    members = np.flatnonzero(laid.members[picks[pick]])
    rows = laid.rows[pools[pool], members]
    names = [laid.names[n] for n in members.tolist()]
    told = {
        why(row) if row >= 0 else f"there is no {name}": None
        for row, name in zip(rows.tolist(), names, strict=True)
        if row < 0 or not free[row]
    }
    have = len(names) - int(missing.min())
    head = f"{have} of {len(names)} of the partition {', '.join(names)} can be had"
    return "; ".join([head, *list(told)[:MOST_DEVICES]])


def _picks(kept: Kept) -> Rows:
    """(p,) the partitions that will do."""
    return np.concatenate([*kept.levels, np.zeros(0, dtype=np.intp)])
