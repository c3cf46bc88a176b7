"""Metrics of what still fits, computed in a thread at a scrape and cached."""

from collections.abc import Callable, Iterator
from functools import partial

from reconciler.aio.worker_thread import ShouldContinue, WorkerThread
from reconciler.analysis.capacity.layout import FleetLayout, fleet_layout
from reconciler.analysis.capacity.lines import Line, lines
from reconciler.analysis.capacity.measure import measure
from reconciler.analysis.capacity.solver import Solver
from reconciler.operations.metrics.catalogue import MAX_DRIVERS
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.snapshot import Snapshot

Series = Iterator[tuple[tuple[str, ...], float]]


class ProfileFits:
    """How many more devices of each profile fit. The solver caches earlier searches."""

    def __init__(self, snapshot: Callable[[], Snapshot], *, ready: Callable[[], bool]) -> None:
        """`ready` tells whether all objects were listed."""
        self._snapshot = snapshot
        self._ready = ready
        self._worker = WorkerThread("profile fits")
        self._solver = Solver()
        self._layout: FleetLayout | None = None
        self._version = -1
        self.lines: list[Line] = []
        """One per driver, for the drivers with most devices"""

    async def refresh(self) -> None:
        """Update `lines`, unless an update is running. If cancelled, they stay unchanged."""
        if not self._ready() or self._worker.busy:
            return
        snapshot = self._snapshot()
        if snapshot.version == self._version:
            return
        found = await self._worker.run(partial(self._measured, snapshot))
        self._version = snapshot.version
        self.lines = sorted(found, key=lambda line: (-line.devices, line.driver))[:MAX_DRIVERS]

    def fits(self) -> Series:
        """(driver, profile) -> devices that still fit."""
        for line in self.lines:
            yield from (((line.driver, one.profile), float(one.fits)) for one in line.profiles)

    def fragmentation(self) -> Series:
        """(driver, profile) -> fragmentation; none if nothing is available."""
        for line in self.lines:
            for one in line.profiles:
                if one.fragmentation is not None:
                    yield (line.driver, one.profile), one.fragmentation

    def stranded(self) -> Series:
        """Driver -> the largest stranded part of an available counter; none if nothing is available."""
        for line in self.lines:
            parts = [one.stranded / one.left for one in line.counters if one.left]
            if parts:
                yield (line.driver,), max(parts)

    def _measured(self, snapshot: Snapshot, _: ShouldContinue) -> list[Line]:
        fleet: Fleet = snapshot.fleet
        if self._layout is None or self._layout.fleet is not fleet:
            self._layout = fleet_layout(fleet, snapshot.rules)
        return lines(measure(self._layout, snapshot.occupancy, self._solver), "driver")
