"""A fleet in which some pools are replaced by new versions, while every row stays at its place.

Columns and counters that are equal are shared with the previous fleet. The result means the same as a fleet
that is assembled from all pools.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kernels.types import Rows
from reconciler.api.objects.slices import DeviceTaintRule
from reconciler.cel.rows import followed
from reconciler.state.caches import Caches
from reconciler.state.devices.encoding.tables import Table, cel_rows, covers, join
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
    pieces = [piece for at in replaced for piece in _changed(previous, at, pools[at], rules)]
    if not pieces:  # the same columns, for other slices
        return replace(previous, pools=pools, caches=Caches())
    fresh = join([piece.table for piece in pieces])
    if not covers(previous.devices.header, fresh.header):
        return None
    rows = _joined([piece.rows for piece in pieces])
    devices = previous.devices.patched(rows, fresh)
    return replace(
        previous,
        pools=pools,
        devices=devices,
        codes=coded(devices),
        cel=followed(cel_rows(devices, previous.vocabulary), previous.cel, rows),
        caches=Caches(),
        **flagged(devices),
    )


class _Piece(NamedTuple):
    """Devices that may have changed."""

    rows: slice
    """In the fleet"""
    table: Table


def _changed(previous: Fleet, at: int, pool: Pool, rules: Sequence[DeviceTaintRule]) -> Iterator[_Piece]:
    """The slices that changed; the whole pool if slices have other sizes or rules concern it."""
    first, known = int(previous.start[at]), previous.pools[at]
    tables = tables_with_taints(pool, rules, previous.vocabulary)
    if len(tables) != len(pool.blocks) or not np.array_equal(known.offsets, pool.offsets):
        yield _Piece(slice(first, first + pool.size), join(tables))
        return
    for number, (old, new) in enumerate(zip(known.blocks, pool.blocks, strict=True)):
        if old is not new:
            rows = slice(first + int(pool.offsets[number]), first + int(pool.offsets[number + 1]))
            yield _Piece(rows, tables[number])


def _joined(ranges: Sequence[slice]) -> slice | Rows:
    if len(ranges) == 1:
        return ranges[0]
    return np.concatenate([np.arange(rows.start, rows.stop) for rows in ranges])


def _excludes_the_same(before: PoolExclusion | None, now: PoolExclusion | None) -> bool:
    return before is now or (before is not None and now is not None and before.equals(now))
