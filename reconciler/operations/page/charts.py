"""What there is to draw, for a fleet: a chart for each counter set, and for devices that draw from none."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from kernels.types import Codes, Rows
from reconciler.api.objects.meta import DeviceID, PoolID
from reconciler.state.devices.occupancy.occupancy import Occupancy
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.pools.pool import Pool
from reconciler.state.devices.snapshot.snapshot import Snapshot

AT_ONCE = 64
"""Pools looked at before the loop may go on with other work"""
TRIES = 4
"""Times that new slices may come in while the ones before are looked at"""
CELLS = 128
"""Devices without counters on one chart: as many as a slice may hold"""


@dataclass(frozen=True, slots=True, eq=False)
class Chart:
    """One drawing: a counter set with the devices that draw from it, or devices that draw from none."""

    of: Pool
    set: int
    """Position among the counter sets of the pool; -1 for none"""
    name: str
    """Of the counter set; empty for none"""
    rows: Rows
    """(n,) devices of the newest generation, as positions in the pool"""

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
        """Names of nodes that have a pool for themselves"""
        place = {name: at for at, name in enumerate(self.nodes)} | {"": -1}
        self.node_of: Codes = np.array([place[name] for name in owners], dtype=np.int32)[self.pool_of]
        """(charts,) position in `nodes`, -1 for none"""
        sizes = [len(chart.rows) for chart in self.all]
        starts = fleet.start[self.pool_of]
        pieces = [chart.rows + start for chart, start in zip(self.all, starts.tolist(), strict=True)]
        self.rows: Rows = np.concatenate([np.zeros(0, np.intp), *pieces])
        """(R,) the devices of all charts, as rows of the fleet; who draws from two sets is there twice"""
        self._chart_of_row = np.repeat(np.arange(len(self.all)), sizes)
        sets = np.array([chart.set for chart in self.all], dtype=np.intp)
        self._sets: Rows = np.where(sets >= 0, sets + fleet.first_set[self.pool_of], -1)

    def of_device(self, device: DeviceID, fleet: Fleet) -> Iterator[int]:
        """Positions of the charts on which a device is."""
        at = fleet.index.get(device.pool_id)
        if at is None:
            return
        rows = fleet.pools[at].rows_of(device.device)
        for chart in range(int(self.first[at]), int(self.first[at + 1])):
            if np.isin(rows, self.all[chart].rows).any():
                yield chart

    def used(self, occupancy: Occupancy, fleet: Fleet) -> NDArray[np.float64]:
        """(charts,) how much of each is taken, 0 to 1: of a counter set, by its scarcest counter."""
        taken = occupancy.held | occupancy.sharing
        count = len(self.all)
        sizes = np.bincount(self._chart_of_row, minlength=count)
        held = np.bincount(self._chart_of_row, weights=taken[self.rows], minlength=count)
        used = held / np.maximum(sizes, 1)
        at = np.flatnonzero(self._sets >= 0)
        if len(at) and fleet.totals.shape[1]:
            totals = fleet.totals[self._sets[at]].astype(np.float64)
            gone = totals - occupancy.left[self._sets[at]]
            share = np.divide(gone, totals, out=np.zeros_like(totals), where=totals > 0)
            used[at] = share.max(axis=1)
        return np.clip(used, 0.0, 1.0)


class Index:
    """Keeps the charts of the newest fleet. Costs a look at each new pool, a few at a time."""

    def __init__(self, picture: Callable[[], Snapshot]) -> None:
        self._picture = picture
        self._pools: dict[Pool, tuple[Chart, ...]] = {}
        self._charts: Charts | None = None
        self._looking = asyncio.Lock()

    async def charts(self) -> Charts:
        """The charts of the fleet as it is; where it changes all the time, as it was a moment ago.

        Cancelled: what was looked at so far is looked at again.
        """
        async with self._looking:
            for _ in range(TRIES):
                fleet = self._picture().fleet
                if self._charts is not None and self._charts.fleet() is fleet:
                    break
                looked: dict[Pool, tuple[Chart, ...]] = {}
                fresh = 0
                for pool in fleet.pools:
                    known = self._pools.get(pool)
                    looked[pool] = tuple(_look(pool)) if known is None else known
                    fresh += known is None
                    if known is None and fresh % AT_ONCE == 0:
                        await asyncio.sleep(0)
                self._pools = looked
                self._charts = Charts(fleet, looked)
            assert self._charts is not None
            return self._charts


def _look(pool: Pool) -> Iterator[Chart]:
    newest = max(block.generation for block in pool.blocks)
    current = np.zeros(pool.size, dtype=np.bool_)
    for at, block in enumerate(pool.blocks):
        if block.generation == newest:
            current[pool.offsets[at] : pool.offsets[at + 1]] = True
    of_device = pool.counters.of_device
    for position, columns in enumerate(pool.counters.sets):
        if columns.id.generation == newest:
            rows = np.flatnonzero(current & (of_device == position).any(axis=1))
            yield Chart(pool, position, columns.id.name, rows)
    plain = np.flatnonzero(current & (of_device < 0).all(axis=1))
    for start in range(0, len(plain), CELLS):
        yield Chart(pool, -1, "", plain[start : start + CELLS])
