"""How full each driver's devices are, for metrics: worked out in a thread when asked for, and kept."""

from collections.abc import Callable, Iterator
from functools import partial

from reconciler.aio.worker_thread import ShouldContinue, WorkerThread
from reconciler.analysis.capacity import FleetLayout, Line, Solver, fleet_layout, lines, measure
from reconciler.operations.metrics.catalogue import MAX_DRIVERS
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.snapshot.snapshot import Snapshot

Series = Iterator[tuple[tuple[str, ...], float]]


class Fullness:
    """Brought up to date when asked. What was searched before is known, so that most of it takes no time."""

    def __init__(self, picture: Callable[[], Snapshot], *, ready: Callable[[], bool]) -> None:
        """`ready` tells whether the picture is whole."""
        self._picture = picture
        self._ready = ready
        self._lane = WorkerThread("fullness")
        self._solver = Solver()
        self._layout: FleetLayout | None = None
        self._version = -1
        self.lines: list[Line] = []
        """One a driver, those with most devices"""

    async def refresh(self) -> None:
        """Bring `lines` up to date, unless that is under way already. Cancelled: they stay as they were."""
        if not self._ready() or self._lane.busy:
            return
        world = self._picture()
        if world.version == self._version:
            return
        found = await self._lane.run(partial(self._measured, world))
        self._version = world.version
        self.lines = sorted(found, key=lambda line: (-line.devices, line.driver))[:MAX_DRIVERS]

    def fits(self) -> Series:
        """Devices, by driver and profile."""
        for line in self.lines:
            yield from (((line.driver, one.profile), float(one.fits)) for one in line.profiles)

    def fragmentation(self) -> Series:
        """Parts, by driver and profile; none where nothing is free."""
        for line in self.lines:
            for one in line.profiles:
                if one.fragmentation is not None:
                    yield (line.driver, one.profile), one.fragmentation

    def stranded(self) -> Series:
        """By driver, the largest part of what is left of a counter; none where nothing is left."""
        for line in self.lines:
            parts = [one.stranded / one.left for one in line.counters if one.left]
            if parts:
                yield (line.driver,), max(parts)

    def _measured(self, world: Snapshot, _: ShouldContinue) -> list[Line]:
        fleet: Fleet = world.fleet
        if self._layout is None or self._layout.fleet is not fleet:
            self._layout = fleet_layout(fleet, world.rules)
        return lines(measure(self._layout, world.occupancy, self._solver), "driver")
