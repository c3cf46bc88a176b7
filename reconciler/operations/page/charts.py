"""The charts of a fleet: one per counter set, and one per group of devices without counters."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from weakref import ref

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kernels.types import Codes, Rows
from reconciler.api.objects.meta import DeviceID, PoolID
from reconciler.api.objects.semantics import Semantics
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.occupancy import Occupancy
from reconciler.state.devices.pool import Pool
from reconciler.state.devices.snapshot import Snapshot

AT_ONCE = 64
"""New pools that are indexed before the event loop may run other tasks"""
TRIES = 4
"""Attempts if slices change during the indexing"""
CELLS = 128
"""Devices without counters on one chart: the maximum of a slice"""


class Chart(Struct, frozen=True, eq=False):
    """One chart: a counter set with the devices that consume it, or devices without counters."""

    of: Pool
    set: int
    """Position among the counter sets of the pool; -1 for none"""
    name: str
    """Name of the counter set; empty for none"""
    rows: Rows
    """(n,) devices of the newest generation, as positions in the pool"""
    flaw: str
    """Why the pool is incomplete or invalid; then its devices are neither allocated nor counted"""

    @property
    def pool(self) -> PoolID:
        return self.of.id


class Charts:
    """The charts of one fleet, in its order."""

    def __init__(self, fleet: Fleet, of_pool: Mapping[Pool, tuple[Chart, ...]]) -> None:
        self.fleet = ref(fleet)
        self.all: tuple[Chart, ...] = tuple([chart for pool in fleet.pools for chart in of_pool[pool]])
        self.pool_of: Codes = np.repeat(
            np.arange(len(fleet.pools), dtype=np.int32), [len(of_pool[pool]) for pool in fleet.pools]
        )
        """(charts,) position of the pool in the fleet"""
        self.first = np.concatenate([[0], np.cumsum([len(of_pool[pool]) for pool in fleet.pools])])
        """(pools + 1,) first chart of each pool"""
        owners = [pool.nodes[0] if pool.nodes and len(pool.nodes) == 1 else "" for pool in fleet.pools]
        self.nodes: tuple[str, ...] = tuple(sorted(set(owners) - {""}))
        """Names of nodes with local pools"""
        place = {name: at for at, name in enumerate(self.nodes)} | {"": -1}
        self.node_of: Codes = np.array([place[name] for name in owners], dtype=np.int32)[self.pool_of]
        """(charts,) position in `nodes`, -1 for none"""
        sizes = [len(chart.rows) for chart in self.all]
        starts = fleet.start[self.pool_of]
        pieces = [chart.rows + start for chart, start in zip(self.all, starts.tolist(), strict=True)]
        self.rows: Rows = np.concatenate([np.zeros(0, np.intp), *pieces])
        """(R,) rows of the devices of all charts; a device of two counter sets is there twice"""
        self._chart_of_row = np.repeat(np.arange(len(self.all)), sizes)
        sets = np.array([chart.set for chart in self.all], dtype=np.intp)
        self._sets: Rows = np.where(sets >= 0, sets + fleet.first_set[self.pool_of], -1)

    def of_device(self, device: DeviceID, fleet: Fleet) -> Iterator[int]:
        """Positions of the charts that show a device."""
        at = fleet.index.get(device.pool_id)
        if at is None:
            return
        rows = fleet.pools[at].rows_of(device.device)
        for chart in range(int(self.first[at]), int(self.first[at + 1])):
            if np.isin(rows, self.all[chart].rows).any():
                yield chart

    def used(self, occupancy: Occupancy, fleet: Fleet) -> NDArray[np.float64]:
        """(charts,) used part of each chart, 0 to 1; for a counter set, of its scarcest counter."""
        in_use = occupancy.held | occupancy.sharing
        count = len(self.all)
        sizes = np.bincount(self._chart_of_row, minlength=count)
        held = np.bincount(self._chart_of_row, weights=in_use[self.rows], minlength=count)
        used = held / np.maximum(sizes, 1)
        at = np.flatnonzero(self._sets >= 0)
        if len(at) and fleet.totals.shape[1]:
            totals = fleet.totals[self._sets[at]].astype(np.float64)
            consumed = totals - occupancy.left[self._sets[at]]
            share = np.divide(consumed, totals, out=np.zeros_like(totals), where=totals > 0)
            used[at] = share.max(axis=1)
        return np.clip(used, 0.0, 1.0)


class Index:
    """Caches the charts of the newest fleet. New pools are indexed in several steps."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot
        self._pools: dict[Pool, tuple[Chart, ...]] = {}
        self._charts: Charts | None = None
        self._used: tuple[int, Charts, NDArray[np.float64]] | None = None
        self._lock = asyncio.Lock()

    async def charts(self) -> Charts:
        """The charts of the current fleet, or of a recent one if slices change all the time.

        If cancelled, the indexing starts again at the next call.
        """
        async with self._lock:
            for _ in range(TRIES):
                snapshot = self._snapshot()
                fleet, rules = snapshot.fleet, snapshot.rules
                del snapshot
                if self._charts is not None and self._charts.fleet() is fleet:
                    break
                indexed: dict[Pool, tuple[Chart, ...]] = {}
                fresh = 0
                for pool in fleet.pools:
                    known = self._pools.get(pool)
                    indexed[pool] = tuple(_charts_of(pool, rules)) if known is None else known
                    fresh += known is None
                    if known is None and fresh % AT_ONCE == 0:
                        await asyncio.sleep(0)
                self._pools = indexed
                self._charts = Charts(fleet, indexed)
            assert self._charts is not None
            return self._charts

    async def used(self) -> tuple[Charts, NDArray[np.float64]] | None:
        """The charts and the used part of each, see `Charts.used`. None if slices have just changed."""
        charts = await self.charts()
        snapshot = self._snapshot()
        if charts.fleet() is not snapshot.fleet:
            return None
        if self._used is None or self._used[0] != snapshot.version or self._used[1] is not charts:
            self._used = snapshot.version, charts, charts.used(snapshot.occupancy, snapshot.fleet)
        return self._used[1:]


def _charts_of(pool: Pool, rules: Semantics) -> Iterator[Chart]:
    flaw = pool.flaw(rules)
    newest = max(block.generation for block in pool.blocks)
    current = np.zeros(pool.size, dtype=np.bool_)
    for at, block in enumerate(pool.blocks):
        if block.generation == newest:
            current[pool.offsets[at] : pool.offsets[at + 1]] = True
    of_device = pool.counters.of_device
    for position, columns in enumerate(pool.counters.sets):
        if columns.id.generation == newest:
            rows = np.flatnonzero(current & (of_device == position).any(axis=1))
            yield Chart(pool, position, columns.id.name, rows, flaw)
    plain = np.flatnonzero(current & (of_device < 0).all(axis=1))
    for start in range(0, len(plain), CELLS):
        yield Chart(pool, -1, "", plain[start : start + CELLS], flaw)
