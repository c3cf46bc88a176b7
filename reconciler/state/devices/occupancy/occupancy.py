"""The holds as columns over one fleet, frozen. Decisions read them; `columns` keeps them current."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import Struct

from kernels.types import Amounts, Bits, Codes, Mask
from reconciler.api.objects.meta import DeviceID, ObjectKey, PoolID
from reconciler.state.devices.occupancy.ledger import NOTHING
from reconciler.state.devices.occupancy.overcharge import Overcharge
from reconciler.state.devices.occupancy.trail import Trail

NOBODY: Mapping[int, str] = MappingProxyType({})
"""No device is nominated"""


class Occupancy(Struct, frozen=True, eq=False, weakref=True):
    """Columns of D devices and S counter sets. Frozen while this object is referenced."""

    held: Mask
    """(D,) held exclusively by a claim"""
    sharing: Mask
    """(D,) held in shares"""
    left: Amounts
    """(S, C) what is left of the counter sets; negative if over-committed"""
    fits: Mask
    """(D,) the device's draw fits in what is left, its pool is not over-committed (CTR-6), and it is open"""
    free: Mask
    """(D,) not held, and either fits or held in shares: a plain request could take the device"""
    consumption: Codes
    """(D,) number in `consumptions` of what shares consume of a device; 0 for nothing"""
    open: Mask | None
    """(D,) no held device excludes this one; part of `fits`. None if no device excludes others"""
    common: Bits | None
    """(scopes, W) names that all held devices of a scope share"""
    consumed: Mapping[int, Mapping[str, int]]
    """row of a shared device -> capacity key -> billionths consumed"""
    consumptions: "Consumptions"
    overcharges: Mapping[PoolID, Overcharge]
    """What held devices are charged beyond their current slices; part of `left`. Few pools have any"""
    claims_of: Callable[[DeviceID], tuple[ObjectKey, ...]]
    """The current holders of a device, maybe newer than this snapshot: for messages, not for decisions"""
    trail: Trail
    serial: int
    """Position in the trail"""
    held_for: Mapping[int, str]
    """row of a nominated device -> for whom it is held, and until when; see `state.nominations`"""
    base: "Occupancy | None" = None
    """Without the nominations. Referenced so that arrays that both have stay frozen"""


class Consumptions:
    """The distinct amounts that shares consume of devices. Numbers stay valid: amounts are only added.

    The amounts are unbounded integers, so columns hold their numbers.
    """

    def __init__(self) -> None:
        self.values: list[Mapping[str, int]] = [NOTHING]
        self._number: dict[tuple[tuple[str, int], ...], int] = {(): 0}

    def number(self, consumed: Mapping[str, int]) -> int:
        """The number of amounts, a new one if they are new."""
        key = tuple(sorted(consumed.items()))
        found = self._number.get(key)
        if found is None:
            found = self._number[key] = len(self.values)
            self.values.append(consumed)
        return found

    def fork(self) -> "Consumptions":
        """The same numbers; both add their own from now on."""
        other = Consumptions()
        other.values, other._number = list(self.values), dict(self._number)
        return other
