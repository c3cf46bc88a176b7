"""How the compatibility groups of each driver are compared, and why. Source: GRP-12."""

import numpy as np
from msgspec import Struct

from reconciler.api.objects.semantics import GroupMode
from reconciler.state.devices.snapshot.snapshot import Snapshot


class DriverMode(Struct, frozen=True):
    """The group mode of one driver."""

    driver: str
    mode: GroupMode
    because: str


def group_modes(snapshot: Snapshot) -> list[DriverMode]:
    """The drivers whose devices declare something about others, sorted."""
    exclusion = snapshot.fleet.exclusion
    if exclusion is None:
        return []
    return [
        DriverMode(driver, mode, _why(snapshot, driver, mode))
        for driver, mode in sorted(exclusion.modes.items())
    ]


def held_of(snapshot: Snapshot, driver: str) -> int:
    """How many devices of a driver are held."""
    fleet, occupancy = snapshot.fleet, snapshot.occupancy
    pools = [at for at, pool in enumerate(fleet.pools) if pool.id.driver == driver]
    taken = (occupancy.held | occupancy.sharing) & np.isin(fleet.pool_of, pools)
    return int(np.count_nonzero(taken))


def _why(snapshot: Snapshot, driver: str, mode: GroupMode) -> str:
    if snapshot.rules.explicit_group_mode(driver) is not None:
        return "set by --group-mode"
    if mode == "pairwise":
        return "default for drivers whose devices say compatibleOnlyWith"
    return "default for drivers whose devices do not say compatibleOnlyWith"
