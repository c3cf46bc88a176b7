"""Who holds which device, and what held devices drew before their slices changed. Source: AS-1 to AS-6."""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import Struct

from reconciler.api.objects import semantics
from reconciler.api.objects.claims import AllocatedDevice, Allocation, opaque_for
from reconciler.api.objects.meta import DeviceID, ObjectKey, PoolID
from reconciler.state.caches import Forkable
from reconciler.state.devices.counters import Finer, PoolCounters
from reconciler.state.devices.encoding.block import Block
from reconciler.state.devices.encoding.vocabulary import Vocabulary


class Holder(NamedTuple):
    """A claim that holds devices. The uid distinguishes it from a later claim of the same name."""

    uid: str
    claim: ObjectKey


class Share(NamedTuple):
    """One of several holds on a device."""

    holder: Holder
    id: str
    config: tuple[str, ...] = ()
    """The JSON of its opaque parameters for the driver, where devices may be locked by them (AFF-3)"""


class Shared(NamedTuple):
    """A share of one device that a claim holds, and the capacity that it consumes."""

    device: DeviceID
    id: str
    consumed: Mapping[str, int]
    """Capacity key as the slice spells it -> billionths"""
    config: tuple[str, ...] = ()
    """As of the `Share`"""


Record = tuple[DeviceID, Mapping[tuple[str, str], int]]
"""A device, and what the result of a claim says that it draws: (set, counter) -> billionths (SCC-3)"""

NOTHING: Mapping[Any, Any] = MappingProxyType({})


class DeviceState(Struct, frozen=True):
    """All holds on one device. A device allocated twice is free after both claims release it (AS-6).

    A change makes another state, so forks and other threads can share it.
    """

    alone: Mapping[Holder, int]
    shares: Mapping[Share, Mapping[str, int]]

    @property
    def holders(self) -> list[Holder]:
        return list(dict.fromkeys([*self.alone, *(share.holder for share in self.shares)]))

    @property
    def holds(self) -> int:
        return sum(self.alone.values()) + len(self.shares)

    @property
    def consumed(self) -> dict[str, int]:
        """Capacity key -> billionths consumed by all shares (AS-5)."""
        return _sum(*self.shares.values())

    def held_by(self, holder: Holder) -> "DeviceState":
        """With one more exclusive hold."""
        return DeviceState({**self.alone, holder: self.alone.get(holder, 0) + 1}, self.shares)

    def shared_by(self, holder: Holder, share: Shared) -> "DeviceState":
        """With one more share."""
        key = Share(holder, share.id, share.config)
        consumed = _sum(self.shares.get(key, NOTHING), share.consumed)
        return DeviceState(self.alone, {**self.shares, key: consumed})

    def released_by(self, holder: Holder) -> "DeviceState":
        """Without the exclusive holds of a claim."""
        alone = dict(self.alone)
        alone.pop(holder, None)
        return DeviceState(alone, self.shares)

    def without(self, share: Share) -> "DeviceState":
        """Without one share."""
        shares = dict(self.shares)
        shares.pop(share, None)
        return DeviceState(self.alone, shares)


EMPTY = DeviceState({}, {})

Hold = Holder | DeviceState
"""What is held of a device: mostly one claim holds it, alone and once, and stands for the state by itself"""

NOBODY: Mapping[str, Hold] = MappingProxyType({})
"""No device is held"""


def state_of(hold: Hold | None) -> DeviceState:
    """The state that a hold stands for; None is that nobody holds the device."""
    if hold is None:
        return EMPTY
    return hold if isinstance(hold, DeviceState) else DeviceState({hold: 1}, NOTHING)


def _sum(*amounts: Mapping[str, int]) -> dict[str, int]:
    total: dict[str, int] = {}
    for consumed in amounts:
        for key, nanos in consumed.items():
            total[key] = total.get(key, 0) + nanos
    return total


class Ledger(Forkable):
    """Holds by claim and by device. It stores names only, so changes of slices do not affect it."""

    def __init__(self, rules: semantics.Semantics) -> None:
        self._sharing = rules.has(semantics.CONSUMABLE_CAPACITY)
        self.locks = rules.has(semantics.SHARING_AFFINITY)
        """Whether configurations lock devices"""
        self.records_draws = rules.has(semantics.SHARED_CAPACITY)
        """Whether results say what their devices draw"""
        self._recorded: dict[DeviceID, dict[str, list[Mapping[tuple[str, str], int]]]] = {}
        """Device -> uid of a claim -> what its results say"""
        self._of_claim: dict[
            str, tuple[Holder, tuple[DeviceID, ...], tuple[Shared, ...], tuple[Record, ...]]
        ] = {}
        """Uid -> the claim, the devices that it holds alone, of which one may appear twice, its shares, and
        its records"""
        self._of_pool: dict[tuple[str, str], dict[str, Hold]] = {}
        """(driver, pool) -> what is held of its devices by name. No pool is empty"""

    def __contains__(self, uid: str) -> bool:
        return uid in self._of_claim

    def holder(self, uid: str) -> Holder | None:
        """The claim with this uid; None if it holds nothing."""
        found = self._of_claim.get(uid)
        return None if found is None else found[0]

    def state(self, device: DeviceID) -> DeviceState:
        """The holds on a device."""
        return state_of(self._of_pool.get(device[:2], NOBODY).get(device[2]))

    def is_held_alone(self, device: DeviceID) -> bool:
        """Whether some claim holds a device exclusively."""
        hold = self._of_pool.get(device[:2], NOBODY).get(device[2])
        return bool(hold.alone) if isinstance(hold, DeviceState) else hold is not None

    def records(self, device: DeviceID) -> list[Mapping[tuple[str, str], int]]:
        """What results say that a device draws, one entry a hold; none if all servers dropped them."""
        return [record for of_claim in self._recorded.get(device, NOTHING).values() for record in of_claim]

    def claims(self, device: DeviceID) -> tuple[ObjectKey, ...]:
        """The claims that hold a device."""
        return tuple(holder.claim for holder in self.state(device).holders)

    def devices(self) -> Iterable[DeviceID]:
        """All held devices."""
        return (DeviceID(*pool, name) for pool, held in self._of_pool.items() for name in held)

    def held_in(self, pool: tuple[str, str]) -> Mapping[str, Hold]:
        """The held devices of a pool, given by driver and name, and the holds on them."""
        return self._of_pool.get(pool, NOBODY)

    def hold(self, holder: Holder, allocation: Allocation) -> set[DeviceID]:
        """Replace the holds of a claim by an allocation; return the devices whose state changed."""
        return self._replace(holder, *self._read(allocation))

    def hold_alone(self, holder: Holder, devices: tuple[DeviceID, ...]) -> set[DeviceID]:
        """The same for an allocation of these devices, each of which the claim holds exclusively."""
        return self._replace(holder, devices, ())

    def _replace(
        self,
        holder: Holder,
        alone: tuple[DeviceID, ...],
        shares: tuple[Shared, ...],
        records: tuple[Record, ...] = (),
    ) -> set[DeviceID]:
        entry = holder, alone, shares, records
        known = self._of_claim.get(holder.uid)
        if known == entry:
            return set()
        changed = self.release(holder.uid) if known is not None else set()
        self._of_claim[holder.uid] = entry
        for device, record in records:
            self._recorded.setdefault(device, {}).setdefault(holder.uid, []).append(record)
        pools = self._of_pool
        for device in alone:
            held = pools.setdefault(device[:2], {})
            hold = held.get(device[2])
            held[device[2]] = holder if hold is None else state_of(hold).held_by(holder)
        changed.update(alone)
        for share in shares:
            of_pool, name = pools.setdefault(share.device[:2], {}), share.device[2]
            of_pool[name] = state_of(of_pool.get(name)).shared_by(holder, share)
            changed.add(share.device)
        return changed

    def release(self, uid: str) -> set[DeviceID]:
        """Release all holds of a claim; return the devices whose state changed."""
        if uid not in self._of_claim:
            return set()
        holder, alone, shares, records = self._of_claim.pop(uid)
        for device, _ in records:
            of_device = self._recorded.get(device)
            if of_device is not None and of_device.pop(uid, []) and not of_device:
                del self._recorded[device]
        for device in alone:
            self._set(device, self.state(device).released_by(holder))
        for share in shares:
            self._set(share.device, self.state(share.device).without(Share(holder, share.id, share.config)))
        return {*alone, *[share.device for share in shares]}

    def _set(self, device: DeviceID, state: DeviceState) -> None:
        """Set the state of a device of which a claim released something."""
        pool, name = device[:2], device[2]
        of_pool = self._of_pool.get(pool)
        if of_pool is None:  # the claim held it twice; it is already released
            return
        if state.alone or state.shares:
            of_pool[name] = state
            return
        of_pool.pop(name, None)
        if not of_pool:
            del self._of_pool[pool]

    def _config(self, result: AllocatedDevice, allocation: Allocation) -> tuple[str, ...]:
        """The opaque parameters of the claim for the driver of a result; empty if nobody asks for them."""
        if not self.locks:
            return ()
        own = [one for one in allocation.devices.config if one.source == "FromClaim"]
        found = opaque_for(own, *result.request.partition("/")[::2])
        return tuple([text for driver, text in found if driver in ("", result.driver)])

    def _read(
        self, allocation: Allocation
    ) -> tuple[tuple[DeviceID, ...], tuple[Shared, ...], tuple[Record, ...]]:
        """What an allocation holds alone, and in shares, and what its results say of counters.

        Admin access holds nothing (AS-1). A share id marks a shared device (AS-2).
        """
        alone, shares, records = [], [], []
        for result in allocation.devices.results:
            if result.admin_access:
                continue
            device = DeviceID(result.driver, result.pool, result.device)
            if self._sharing and result.share_id:
                consumed = {key: amount.nanos for key, amount in result.consumed_capacity.items()}
                shares.append(Shared(device, result.share_id, consumed, self._config(result, allocation)))
            else:
                alone.append(device)
            if self.records_draws and result.consumed_counters:
                drawn = {
                    (of_set.counter_set, name): amount.nanos
                    for of_set in result.consumed_counters
                    for name, amount in of_set.counters.items()
                }
                records.append((device, drawn))
        return tuple(alone), tuple(shares), tuple(records)


Drawn = Mapping[str, Mapping[str, int]]
"""Counter set -> counter -> billionths"""

_NOTHING_DRAWN: Mapping[str, Drawn] = MappingProxyType({})


class RetainedDraws(Forkable):
    """Held device -> what it drew. Only this process knows it: the server no longer has the old slices."""

    def __init__(self) -> None:
        self._of_pool: dict[PoolID, dict[str, Drawn]] = {}

    def __bool__(self) -> bool:
        return bool(self._of_pool)

    def of(self, pool: PoolID) -> Mapping[str, Drawn]:
        """Device -> retained draw. Callers must not change it."""
        return self._of_pool.get(pool, _NOTHING_DRAWN)

    def pools(self) -> Collection[PoolID]:
        """Pools with retained draws."""
        return self._of_pool.keys()

    def put(self, device: DeviceID, drawn: Drawn) -> None:
        """Set the draw of a device, as another process recorded it."""
        self._of_pool.setdefault(device.pool_id, {})[device.device] = drawn

    def retain(
        self, pool: PoolID, members: Collection[Block], held: Iterable[str], vocabulary: Vocabulary
    ) -> None:
        """Retain what the held devices of a pool draw, before its slices change. Known draws stay."""
        known = self._of_pool.get(pool, _NOTHING_DRAWN)
        unknown = [name for name in held if name not in known]
        if not unknown:
            return
        drawing = [block for block in newest_complete(members) if block.sets.size]
        read: dict[tuple[bytes, bytes], Drawn] = {}  # equal draws are one object
        for name in unknown if drawing else ():
            for block in drawing:
                for row in block.named.rows_of(name)[:1]:
                    key = (block.sets[row].tobytes(), block.draws[row].tobytes())
                    if key not in read:
                        read[key] = _drawn(block, row, vocabulary)
                    if read[key]:
                        self._of_pool.setdefault(pool, {}).setdefault(name, read[key])

    def release(self, devices: Iterable[DeviceID]) -> None:
        """Drop devices that no claim holds any more."""
        for device in devices:
            of_pool = self._of_pool.get(device.pool_id)
            if of_pool is not None and of_pool.pop(device.device, None) is not None and not of_pool:
                del self._of_pool[device.pool_id]


def finer_than(counters: PoolCounters, retained: Mapping[str, Drawn]) -> Finer:
    """The retained amounts of a pool that are not whole units of its counters."""
    found: dict[str, dict[str, set[int]]] = {}
    for drawn in {id(drawn): drawn for drawn in retained.values()}.values():
        for columns in counters.sets:
            amounts = drawn.get(columns.id.name, {})
            for name, unit in zip(columns.counters, columns.units, strict=True):
                if name in amounts and amounts[name] % unit:
                    found.setdefault(columns.id.name, {}).setdefault(name, set()).add(amounts[name])
    return {
        set_: {name: frozenset(amounts) for name, amounts in of_set.items()} for set_, of_set in found.items()
    }


def newest_complete(members: Collection[Block]) -> list[Block]:
    """The slices of the newest complete generation; empty if there is none."""
    for generation in sorted({block.generation for block in members}, reverse=True):
        peers = sorted(
            (block for block in members if block.generation == generation),
            key=lambda block: block.name.encode(),
        )
        if {block.slice_count for block in peers} == {len(peers)}:
            return peers
    return []


def _drawn(block: Block, row: int, vocabulary: Vocabulary) -> Drawn:
    found: dict[str, dict[str, int]] = {}
    for set_, draw in zip(block.sets[row].tolist(), block.draws[row].tolist(), strict=True):
        if set_ >= 0:
            amounts = found.setdefault(vocabulary.sets.values[set_], {})
            for counter, nanos in vocabulary.draws.values[draw]:
                amounts[counter] = amounts.get(counter, 0) + nanos
    return found
