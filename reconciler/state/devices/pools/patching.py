"""A fleet in which some pools are replaced by new versions, while every row stays at its place.

Columns and counters that are equal are shared with the previous fleet. The result means the same as a fleet
that is assembled from all pools.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kernels.types import Rows
from reconciler.api.objects.taint_rules import DeviceTaintRule
from reconciler.state.caches import Caches
from reconciler.state.devices.encoding.tables import cel_rows, join
from reconciler.state.devices.exclusion.rules import PoolExclusion
from reconciler.state.devices.pools.fleet import Fleet, coded, flagged
from reconciler.state.devices.pools.pool import Pool
from reconciler.state.devices.pools.tainting import tables_with_taints


def patched(
    previous: Fleet, pools: tuple[Pool, ...], replaced: Sequence[int], rules: Sequence[DeviceTaintRule]
) -> Fleet | None:
    """The fleet of `pools`, which differs from the previous one at some positions.

    The replaced pools must have as many devices as before and the same counters. None if there are new
    columns, or if other devices exclude one another: then the fleet must be assembled.
    """
    if not all(_excludes_the_same(previous.pools[at].exclusion, pools[at].exclusion) for at in replaced):
        return None
    tables = [table for at in replaced for table in tables_with_taints(pools[at], rules, previous.vocabulary)]
    fresh = join(tables)
    if not previous.devices.covers(fresh.header):
        return None
    rows = _rows(previous.start, replaced)
    devices = previous.devices.patched(rows, fresh)
    return replace(
        previous,
        pools=pools,
        devices=devices,
        codes=coded(devices),
        cel=cel_rows(devices, previous.vocabulary, previous.cel, rows),
        caches=Caches(),
        **flagged(devices),
    )


def _rows(start: Rows, places: Sequence[int]) -> slice | Rows:
    """The rows of some pools; a range if it is one pool."""
    ranges = [slice(int(start[at]), int(start[at + 1])) for at in places]
    if len(ranges) == 1:
        return ranges[0]
    return np.concatenate([np.arange(rows.start, rows.stop) for rows in ranges])


def _excludes_the_same(before: PoolExclusion | None, now: PoolExclusion | None) -> bool:
    return before is now or (before is not None and now is not None and before.equals(now))
