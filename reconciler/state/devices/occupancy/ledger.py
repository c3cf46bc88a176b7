"""Who holds which device. Source: AS-1 to AS-6."""

from collections.abc import Iterable, Mapping
from copy import copy
from types import MappingProxyType
from typing import NamedTuple

from reconciler.api.objects.claims import Allocation
from reconciler.api.objects.meta import DeviceID, ObjectKey, PoolID
from reconciler.api.objects.semantics import CONSUMABLE_CAPACITY, Semantics
from reconciler.api.objects.value import value


class Holder(NamedTuple):
    """A claim that holds devices. The uid distinguishes it from a later claim of the same name."""

    uid: str
    claim: ObjectKey


class Share(NamedTuple):
    """One of several holds on a device."""

    holder: Holder
    id: str


class Hold(NamedTuple):
    """One device held by one claim: exclusively, or as a share that consumes capacity."""

    device: DeviceID
    share: str | None
    consumed: Mapping[str, int]
    """Capacity key as the slice spells it -> billionths"""


NOTHING: Mapping[str, int] = MappingProxyType({})


@value()
class DeviceState:
    """All holds on one device. A device allocated twice is free after both claims release it (AS-6).

    A change makes another state, so forks and other threads can share it.
    """

    alone: Mapping[Holder, int]
    shares: Mapping[Share, Mapping[str, int]]

    @property
    def holders(self) -> list[Holder]:
        return list(dict.fromkeys([*self.alone, *(share.holder for share in self.shares)]))

    @property
    def consumed(self) -> dict[str, int]:
        """Capacity key -> billionths consumed by all shares (AS-5)."""
        return _sum(*self.shares.values())

    def held_by(self, holder: Holder, share: str | None, consumed: Mapping[str, int]) -> "DeviceState":
        """With one more hold."""
        if share is None:
            if not self.alone:
                return DeviceState({holder: 1}, self.shares)
            return DeviceState({**self.alone, holder: self.alone.get(holder, 0) + 1}, self.shares)
        key = Share(holder, share)
        return DeviceState(self.alone, {**self.shares, key: _sum(self.shares.get(key, NOTHING), consumed)})

    def released_by(self, holder: Holder, share: str | None) -> "DeviceState":
        """Without the exclusive holds of a claim, and without one of its shares."""
        alone, shares = dict(self.alone), dict(self.shares)
        alone.pop(holder, None)
        if share is not None:
            shares.pop(Share(holder, share), None)
        return DeviceState(alone, shares)


EMPTY = DeviceState({}, {})


def _sum(*amounts: Mapping[str, int]) -> dict[str, int]:
    total: dict[str, int] = {}
    for consumed in amounts:
        for key, nanos in consumed.items():
            total[key] = total.get(key, 0) + nanos
    return total


class Ledger:
    """Holds by claim and by device. It stores names only, so changes of slices do not affect it."""

    def __init__(self, rules: Semantics) -> None:
        self._sharing = rules.has(CONSUMABLE_CAPACITY)
        self._of_claim: dict[str, tuple[Holder, tuple[Hold, ...]]] = {}
        self._of_device: dict[DeviceID, DeviceState] = {}
        self._of_pool: dict[tuple[str, str], dict[str, None]] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._of_claim

    def holder(self, uid: str) -> Holder | None:
        """The claim with this uid; None if it holds nothing."""
        found = self._of_claim.get(uid)
        return None if found is None else found[0]

    def fork(self) -> "Ledger":
        """The same holds, changed independently from now on."""
        other = copy(self)
        other._of_claim, other._of_device = dict(self._of_claim), dict(self._of_device)
        other._of_pool = {pool: dict(held) for pool, held in self._of_pool.items()}
        return other

    def state(self, device: DeviceID) -> DeviceState:
        """The holds on a device."""
        return self._of_device.get(device, EMPTY)

    def claims(self, device: DeviceID) -> tuple[ObjectKey, ...]:
        """The claims that hold a device."""
        return tuple(holder.claim for holder in self.state(device).holders)

    def devices(self) -> Iterable[DeviceID]:
        """All held devices."""
        return self._of_device.keys()

    def held_in(self, pool: PoolID) -> Iterable[str]:
        """The held devices of a pool."""
        return self._of_pool.get(pool, ())

    def hold(self, holder: Holder, allocation: Allocation) -> set[DeviceID]:
        """Replace the holds of a claim by an allocation; return the devices whose state changed."""
        holds = self._holds(allocation)
        known = self._of_claim.get(holder.uid)
        if known == (holder, holds):
            return set()
        changed = self.release(holder.uid) if known is not None else set()
        self._of_claim[holder.uid] = (holder, holds)
        alone = EMPTY.held_by(holder, None, NOTHING)
        for device, share, consumed in holds:
            state = self._of_device.get(device)
            if state is None:
                state = EMPTY
                self._of_pool.setdefault(device[:2], {})[device.device] = None
            if state is EMPTY and share is None:
                self._of_device[device] = alone  # most devices: one state for all of them
            else:
                self._of_device[device] = state.held_by(holder, share, consumed)
            changed.add(device)
        return changed

    def release(self, uid: str) -> set[DeviceID]:
        """Release all holds of a claim; return the devices whose state changed."""
        if uid not in self._of_claim:
            return set()
        holder, holds = self._of_claim.pop(uid)
        for hold in holds:
            state = self._of_device.get(hold.device)
            if state is None:  # this claim held it twice; it is already released
                continue
            state = state.released_by(holder, hold.share)
            if state.alone or state.shares:
                self._of_device[hold.device] = state
            else:
                del self._of_device[hold.device]
                of_pool = self._of_pool[hold.device.pool_id]
                del of_pool[hold.device.device]
                if not of_pool:
                    del self._of_pool[hold.device.pool_id]
        return {hold.device for hold in holds}

    def _holds(self, allocation: Allocation) -> tuple[Hold, ...]:
        """Admin access holds nothing (AS-1). A share id marks a shared device (AS-2)."""
        found = []
        for result in allocation.devices.results:
            if result.admin_access:
                continue
            device = DeviceID(result.driver, result.pool, result.device)
            if self._sharing and result.share_id:
                consumed = {key: amount.nanos for key, amount in result.consumed_capacity.items()}
                found.append(Hold(device, result.share_id, consumed))
            else:
                found.append(Hold(device, None, NOTHING))
        return tuple(found)
