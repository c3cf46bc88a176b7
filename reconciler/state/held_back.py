"""The snapshots that others see while nominations count: what is nominated counts as held.

Without nominations nothing is computed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import numpy as np
from msgspec.structs import replace

from kernels.fit import fits, held_back, total_draw
from kernels.groups import distinct
from kernels.types import Rows
from reconciler.api.objects.meta import DeviceID
from reconciler.errors import Rejected
from reconciler.state.caches import Recent
from reconciler.state.devices.exclusion import ScopeOccupancy
from reconciler.state.devices.occupancy import LONGEST_TRAIL, Occupancy, Trail
from reconciler.state.devices.snapshot import Snapshot, Topology
from reconciler.state.nominations import Nomination, Nominations, Nominee


class HeldBack:
    """Follows the occupancy of one fleet for one set of nominations.

    A nominated device may still be in use, and so may what it will draw from counters. So a counter
    never falls below zero by a nomination: that would make a pool look over-committed (CTR-6). It is
    lowered to what remains for others, at least zero. What requests will say is not known here (SCC-6).
    """

    def __init__(self, nominations: Sequence[Nomination], topology: Topology) -> None:
        self._fleet = topology.fleet
        self._held_for = {
            row: str(one)
            for one in nominations
            for device in (*one.devices, *_of_drivers(one, topology))
            for row in self._fleet.rows_of(device)
        }
        self._rows: Rows = np.array(sorted(self._held_for), dtype=np.intp)
        self._trail = Trail()
        self._base: Trail | None = None
        self._serial = 0
        self._affected: Rows = self._rows

    def of(self, snapshot: Snapshot, version: int) -> Snapshot:
        """A snapshot in which the nominated devices are held; the same one if none of them exists."""
        if not len(self._rows):
            return snapshot
        return replace(snapshot, version=version, occupancy=self._occupancy(snapshot.occupancy))

    def _occupancy(self, base: Occupancy) -> Occupancy:
        fleet, rows = self._fleet, self._rows
        held, fit, free = base.held.copy(), base.fits.copy(), base.free.copy()
        unused = rows[~(held[rows] | base.sharing[rows])]
        wanted = total_draw(len(fleet.totals), fleet.table, fleet.sets[unused], fleet.draws[unused])
        left = held_back(base.left, wanted)
        held[rows] = True
        again = distinct(np.concatenate([rows, fleet.by_set.of_any(np.flatnonzero(wanted.any(axis=1)))]))
        scopes = None
        if fleet.exclusion is not None and base.open is not None:
            scopes = ScopeOccupancy(fleet.exclusion, held | base.sharing)
            again = distinct(np.concatenate([again, np.flatnonzero(scopes.open != base.open)]))
        fit[again] &= fits(left, fleet.table, fleet.sets[again], fleet.draws[again])
        if scopes is not None:
            fit[again] &= scopes.open[again]
        free[again] = (fit[again] | base.sharing[again]) & ~held[again]
        self._follow(base, again)
        return replace(
            base,
            held=held,
            left=left,
            fits=fit,
            free=free,
            open=base.open if scopes is None else scopes.open,
            common=base.common if scopes is None else scopes.names,
            trail=self._trail,
            serial=len(self._trail),
            held_for=self._held_for,
            base=base,
        )

    def _follow(self, base: Occupancy, again: Rows) -> None:
        """Note which rows may differ from the previous answer."""
        if self._base is not base.trail or base.serial < self._serial or len(self._trail) >= LONGEST_TRAIL:
            self._base, self._trail = base.trail, Trail()
        elif base.serial > self._serial:
            changed = base.trail.between(self._serial, base.serial)
            self._trail.add(distinct(np.concatenate([changed, again, self._affected])))
        self._serial, self._affected = base.serial, again


def _of_drivers(nomination: Nomination, topology: Topology) -> Iterator[DeviceID]:
    """The devices of whole drivers that are held on nodes, as far as they are published now."""
    for place in nomination.places:
        if place.drivers and place.node in topology.nodes:
            with suppress(Rejected):  # no device is given there
                view = topology.view(place.node)
                ids = (topology.fleet.id_of(row) for row in view.rows[view.here].tolist())
                yield from (device for device in ids if device.driver in place.drivers)


KEPT = 4
"""Sets of nominations that are followed, at least. Most decisions have none of their own: they share one."""


class Reserved:
    """The nominations of a store, and the snapshots that respect them."""

    def __init__(self, nominations: Nominations) -> None:
        self.nominations = nominations
        self._followed: Recent[tuple[Nomination, ...], HeldBack] = Recent(KEPT)
        self._topology: Topology | None = None
        """That of the followers"""
        self._made: dict[tuple[Nomination, ...], Snapshot] = {}
        self._made_of = -1

    def outdated(self) -> None:
        """Drop the snapshots: while one is referenced, the next change copies the columns."""
        self._made.clear()

    def ended(self) -> None:
        """Keep nothing once no nomination is left: followers refer to a whole fleet."""
        if not self.nominations:
            self._made.clear()
            self._followed.clear()
            self._topology = None

    def snapshot(self, base: Snapshot, own: frozenset[Nominee], next_version: Callable[[], int]) -> Snapshot:
        """A snapshot as a decision for `own` sees it. Equal states have one version."""
        if self._made_of != base.version:
            self._made.clear()
            self._made_of = base.version
        others = self.nominations.besides(own)
        if not others:
            return base
        found = self._made.get(others)
        if found is None:
            if self._topology is not base.topology:
                self._followed.clear()
                self._topology = base.topology
            follower = self._followed.of(others, lambda: HeldBack(others, base.topology))
            found = self._made[others] = follower.of(base, next_version())
        return found
