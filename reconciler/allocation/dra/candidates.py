"""The devices of one node for one request option, given what is held before the decision."""

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from kernels.fit import fits
from kernels.types import Mask, Rows
from reconciler.allocation.dra import static_match
from reconciler.allocation.dra.availability import available, capacity_fits
from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.consumption import Consumption
from reconciler.allocation.dra.request_options import RequestOption
from reconciler.allocation.dra.selector_masks import failure
from reconciler.api.objects.plan import Reason
from reconciler.api.objects.semantics import CONSUMABLE_CAPACITY, PARTITIONABLE_DEVICES
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.pool import Usable
from reconciler.state.devices.snapshot import Snapshot, View


class Candidates(Struct, frozen=True):
    """The n devices of a view for one request option, given what is held before the decision."""

    option: RequestOption
    count: int
    """Devices that the option needs"""
    listed: Rows | None
    """Mode All: (count,) positions of the devices, all of which are needed; otherwise None"""
    available: Mask
    """(n,) can be taken unless an earlier choice of this decision prevents it"""
    fatal: Mask
    """(n,) trying it is an error"""
    static: static_match.StaticMatch
    order: Rows | None = None
    """(n,) positions in the order in which they are tried; None for rising positions"""

    def in_order(self, mask: Mask, start: int = 0) -> Rows:
        """The positions of a mask (n,) in the order in which they are tried, from the place `start` on."""
        if self.order is None:
            return mask[start:].nonzero()[0] + start if start else mask.nonzero()[0]
        order = self.order[start:]
        return order[mask[order]]

    def place_of(self, at: int) -> int:
        """When a position is tried."""
        return at if self.order is None else int(np.flatnonzero(self.order == at)[0])

    def rest(self, count: int, start: int) -> "Candidates":
        """The request without the devices chosen so far: `count` more, from the place `start` on."""
        later = np.zeros_like(self.available)
        later[self.in_order(self.available, start)] = True
        return replace(self, count=count, available=later)

    def failure(self, fleet: Fleet, row: int, at: int) -> Fatal:
        """The error of the device in row `row` of the fleet, at position `at` of the view."""
        consumption = self.static.consumption.get(int(self.static.shape[at]))
        if isinstance(consumption, Fatal) and self.static.matching[at]:
            return consumption
        return failure(self.option, fleet, row)

    def takes(self, at: int) -> Consumption | None:
        """What the device at position `at` loses of its capacities if taken; None if it has none."""
        consumption = self.static.consumption.get(int(self.static.shape[at]))
        return consumption if isinstance(consumption, Consumption) else None


def find_candidates(option: RequestOption, view: View, snapshot: Snapshot) -> Candidates:
    """The candidates of a node for a request option. Raises Fatal where mode All meets an error (PREP-8)."""
    static = static_match.match_in_view(option, view, snapshot)
    listed = _all(option, view, snapshot, static) if option.all else None
    fatal = static.fatal
    if static.fails and not option.admin:
        fatal = fatal & ~view.of(snapshot.occupancy.held)
    return Candidates(
        option=option,
        count=option.source.wanted if listed is None else len(listed),
        listed=listed,
        available=static.suitable & view.of(available(option, snapshot).mask),
        fatal=fatal,
        static=static,
    )


def capacity_permits(option: RequestOption, rows: Rows, snapshot: Snapshot) -> Mask:
    """(n,) the device has the requested capacity, in addition to what shares consume already."""
    shape = snapshot.fleet.codes["shape"][rows]
    consumption = static_match.resolve(option, shape, snapshot)
    large = static_match.large_enough(option, consumption, shape)
    if (asks := static_match.match_in_fleet(option, snapshot).asks) is not None:
        large &= ~asks.refused[rows]
    return large & capacity_fits(rows, consumption, shape, large, snapshot)


def not_excluded(option: RequestOption, rows: Rows, snapshot: Snapshot) -> Mask:
    """(n,) no held device excludes it, or a share of it is held already; and its holders have locked it to no
    other mode.
    """
    occupancy, modes = snapshot.occupancy, static_match.match_in_fleet(option, snapshot).modes
    found = np.ones(len(rows), dtype=np.bool_)
    if occupancy.open is not None:
        found = occupancy.open[rows] | occupancy.sharing[rows]
    return found & modes.fit(occupancy.lock[rows], occupancy, rows) if modes is not None else found


def counters_permit(option: RequestOption, rows: Rows, snapshot: Snapshot) -> Mask:
    """(n,) the counters have what the device draws and its pool is not over-committed (CTR-6), or an earlier
    share has drawn it (CAP-13). Whether others exclude it does not matter.

    rows (n,)  devices that match the request option
    """
    fleet, occupancy = snapshot.fleet, snapshot.occupancy
    if not snapshot.rules.has(PARTITIONABLE_DEVICES):
        return ~static_match.draws(fleet, rows)
    sets, passed = fleet.sets[rows], occupancy.fits[rows]
    if occupancy.open is not None:  # `fits` counts what others exclude, too
        passed = fits(occupancy.left, fleet.table, sets, fleet.draws[rows])
        over = (occupancy.left < 0).any(axis=1)
        if over.any():
            groups = fleet.set_group[over]
            passed &= ~((sets >= 0) & np.isin(fleet.set_group[sets], groups)).any(axis=1)
    passed = passed | occupancy.sharing[rows]
    asks = static_match.match_in_fleet(option, snapshot).asks
    return passed & asks.fit(occupancy.left, sets, occupancy.sharing[rows], rows) if asks else passed


def _all(option: RequestOption, view: View, snapshot: Snapshot, static: static_match.StaticMatch) -> Rows:
    """(count,) the devices that mode All needs, whatever their state (PREP-8)."""
    rows, shape = view.rows, static.shape
    broken = np.flatnonzero(static.fatal)
    first_error = int(broken[0]) if len(broken) else len(rows)
    start = 0
    for pool in view.pools:
        if pool.usable is not Usable.YES and start <= first_error:
            incomplete = pool.usable is Usable.INCOMPLETE
            problem = f"pool {pool.pool} is {pool.usable.value}: {pool.problem}"
            raise Fatal(
                Reason.INCOMPLETE_POOL if incomplete else Reason.INVALID_POOL,
                f"request {option.name} needs all devices, but {problem}",
            )
        start += len(pool.rows)
    if len(broken):
        taken = static.consumption.get(int(shape[first_error]))
        if isinstance(taken, Fatal) and static.matching[first_error]:
            raise taken
        raise failure(option, snapshot.fleet, int(rows[first_error]))
    wanted = static.matching
    if snapshot.rules.has(CONSUMABLE_CAPACITY):
        wanted = wanted & static_match.large_enough(option, static.consumption, shape)
        if snapshot.rules.old:
            wanted = wanted & capacity_fits(rows, static.consumption, shape, wanted, snapshot)
    return np.flatnonzero(wanted)
