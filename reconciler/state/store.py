"""The mutable state. Applies changes, keeps assumed plans, hands out snapshots.

Any sequence of changes gives the same state as a new store with the final objects, with one exception: the
store retains what a held device drew before its slices changed. A new store cannot know that. The store is
not async: nothing can happen between a read and a change.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import or_
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple, replace

from reconciler.api.objects.changes import Change, Changed, Refused, Removed, Replaced
from reconciler.api.objects.claims import Allocation, DeviceClass, ResourceClaim
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.meta import ApiObject, DeviceID, ObjectKey, PoolID
from reconciler.api.objects.plan import Plan
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import DeviceTaintRule, ResourceSlice
from reconciler.state.devices.fleet import Fleet, Layout
from reconciler.state.devices.inventory import Assembled
from reconciler.state.devices.ledger import DeviceState, Drawn, Holder, Ledger, RetainedDraws
from reconciler.state.devices.occupancy_columns import OccupancyColumns
from reconciler.state.devices.snapshot import Snapshot, Topology
from reconciler.state.held_back import Reserved
from reconciler.state.nominations import Nomination, Nominations, Nominee
from reconciler.state.supply import Supply


class Delta(Struct, frozen=True):
    """The affected objects. Only what depends on them is decided again."""

    claims: frozenset[ObjectKey] = frozenset()
    pods: frozenset[ObjectKey] = frozenset()
    freed: frozenset[PoolID] = frozenset()
    """Pools with a device that became free"""
    classes: frozenset[str] = frozenset()
    supply: bool = False
    """Whether devices or nodes changed"""
    devices: frozenset[DeviceID] = frozenset()
    """Devices whose holders changed"""
    shares: frozenset[ObjectKey] = frozenset()
    """Claims whose devices may take something else of their nodes now (NAR-1)"""
    allocated: frozenset[ObjectKey] = frozenset()
    """Claims that were not known to be allocated on the server"""

    def __or__(self, other: "Delta") -> "Delta":
        if other is self or other is NOTHING:
            return self
        return other if self is NOTHING else Delta(*map(or_, astuple(self), astuple(other)))

    @staticmethod
    def of(parts: Sequence["Delta"]) -> "Delta":
        """The union of many deltas. Joining them one by one with `|` would take quadratic time."""
        unions = {name: frozenset().union(*[getattr(one, name) for one in parts]) for name in _SETS}
        return Delta(**unions, supply=any(part.supply for part in parts))


_SETS = [name for name in Delta.__struct_fields__ if name != "supply"]
NOTHING = Delta()
SUPPLY = Delta(supply=True)


class Vacated(Struct, frozen=True):
    """What a claim held."""

    holder: Holder
    allocation: Allocation
    plan: Plan | None
    """Its plan, if it was assumed"""
    retained: RetainedDraws | None
    """All retained draws at that moment; None if there were none"""


class Store:
    """Slices, classes, nodes, taint rules, claims and pods, and which claim holds which devices."""

    def __init__(self, rules: Semantics) -> None:
        self.rules = rules
        self.refused: dict[tuple[str, ObjectKey], str] = {}
        """Objects on the server that cannot be parsed, and why"""
        self.supply = Supply(rules, self._retained_of)
        self._claims: dict[ObjectKey, ResourceClaim] = {}
        self._pods: dict[ObjectKey, Pod] = {}
        self.claims: Mapping[ObjectKey, ResourceClaim] = MappingProxyType(self._claims)
        """Read dozens of times for each claim, so it is made once"""
        self.pods: Mapping[ObjectKey, Pod] = MappingProxyType(self._pods)
        self._assumed: dict[str, Plan] = {}
        self._ledger = Ledger(rules)
        self.retained = RetainedDraws()
        self._draws_retained: set[PoolID] = set()
        """Pools whose held draws the current change has already retained"""
        self._changed_devices: set[DeviceID] = set()
        self._columns: OccupancyColumns | None = None
        self._snapshot: Snapshot | None = None
        self._version = 0
        self._topology: Topology | None = None
        """That of the last snapshot, unless the supply changed since"""
        self._reserved = Reserved(Nominations())

    # -- reading

    def assumed(self, uid: str) -> Plan | None:
        """The plan of a claim that is decided but not confirmed yet."""
        return self._assumed.get(uid)

    @property
    def assumptions(self) -> Iterable[Plan]:
        """The plans of all claims that are decided but not confirmed yet."""
        return self._assumed.values()

    def state(self, device: DeviceID) -> DeviceState:
        """The holds on a device, assumed ones included."""
        return self._ledger.state(device)

    def holders(self, device: DeviceID) -> list[Holder]:
        """The claims that hold a device, assumed ones included."""
        return self._ledger.state(device).holders

    def snapshot(self) -> Snapshot:
        """The current state, frozen. Later changes create another snapshot."""
        if self._snapshot is not None:  # every change drops it
            return self._snapshot
        columns, topology = self._columns, self._topology
        if columns is None or topology is None:
            fleet, layout = self.supply.fleet()
            columns = self._columns_of(fleet, layout)
            topology = self._topology = self.supply.topology(fleet, layout)
        if self._changed_devices:
            columns.update(self._changed_devices)
            self._changed_devices.clear()
        self._version += 1
        self._snapshot = Snapshot(self._version, topology, columns.freeze(), self.supply.classes)
        return self._snapshot

    @property
    def nominations(self) -> Nominations:
        """Room that is held for something. Change it by `nominate` and `end_nomination` only."""
        return self._reserved.nominations

    def snapshot_for(self, own: frozenset[Nominee]) -> Snapshot:
        """The same, as a decision for `own` sees it: devices that are nominated for others count as held."""
        if not self._reserved.nominations:
            return self.snapshot()
        if self._snapshot is None:
            self._reserved.outdated()
        return self._reserved.snapshot(self.snapshot(), own, self._next_version)

    def _next_version(self) -> int:
        self._version += 1
        return self._version

    @property
    def is_current(self) -> bool:
        """Whether nothing changed since the last snapshot, so that the next one is the same."""
        return self._snapshot is not None

    def adopt(self, assembled: Assembled) -> None:
        """Take over a fleet that was assembled elsewhere, unless a snapshot was faster.

        What changed meanwhile stays to be done: the next snapshot has it.
        """
        if self.supply.adopt(assembled):
            self._snapshot = self._topology = None
            self._columns_of(assembled.topology.fleet, assembled.layout)

    # -- changing

    def apply(self, change: Change) -> Delta:
        """Apply a change seen on the server. An older version of an object is ignored."""
        self._draws_retained.clear()
        return self._apply(change)

    def _apply(self, change: Change) -> Delta:
        match change:
            case Changed(object=thing):
                if self.refused:
                    self.refused.pop((change.kind, thing.key), None)
                return self._put(thing)
            case Removed(key=key, stating=stating):
                self.refused.pop((change.kind, key), None)
                return self._drop(change.kind, key, stating)
            case Refused(key=key, reason=reason):
                self.refused[change.kind, key] = reason
                # A claim keeps its devices although its newest version cannot be parsed.
                return NOTHING if change.kind == "ResourceClaim" else self._drop(change.kind, key)
            case Replaced():
                return self._replace(change)

    def assume(self, plan: Plan) -> None:
        """Count a decided plan as held, before it is written."""
        self._assumed[plan.uid] = plan
        holder = Holder(plan.uid, plan.claim)
        if plan.plain:  # its allocation may not be made yet
            self._mark(self._ledger.hold_alone(holder, plan.plain))
        else:
            self._mark(self._ledger.hold(holder, plan.allocation))

    def forget(self, plan: Plan) -> Delta:
        """Remove an assumed plan that was not and will not be written."""
        assumed = self._assumed.get(plan.uid)
        if assumed is not plan and assumed != plan:
            return NOTHING
        del self._assumed[plan.uid]
        return self._note(self._ledger.release(plan.uid))

    def nominate(self, nomination: Nomination) -> Delta:
        """Hold room until `end_nomination`, in place of what is held for the same nominee."""
        before = self._reserved.nominations.put(nomination)
        return NOTHING if before is None else _freed(before)

    def end_nomination(self, nominee: Nominee) -> Delta:
        """Hold nothing for a nominee any more."""
        found = self._reserved.nominations.drop(nominee)
        self._reserved.ended()
        return NOTHING if found is None else _freed(found)

    def vacate(self, uid: str) -> Vacated | None:
        """Count the devices of a claim as released, until `restore`; None if it holds none."""
        holder = self._ledger.holder(uid)
        if holder is None:
            return None
        plan = self._assumed.pop(uid, None)
        allocation = plan.allocation if plan is not None else self._claims[holder.claim].allocation
        assert allocation is not None  # a claim in the ledger is assumed or allocated
        retained = self.retained.fork() if self.retained else None
        self._note(self._ledger.release(uid))
        return Vacated(holder, allocation, plan, retained)

    def restore(self, vacated: Vacated) -> None:
        """Undo `vacate`. Nothing else may have changed in between."""
        if vacated.plan is not None:
            self._assumed[vacated.plan.uid] = vacated.plan
        self._note(self._ledger.hold(vacated.holder, vacated.allocation))
        if vacated.retained is not None:
            # Released devices lost what they drew before their slices changed: computed anew, since rare.
            self.retained, self._columns = vacated.retained, None

    def _replace(self, listing: Replaced) -> Delta:
        listed = {thing.key for thing in listing.objects} | {refused.key for refused in listing.refused}
        elsewhere = {ObjectKey("", name): driver for name, driver in listing.stating}
        gone = {key for key in self._keys(listing.kind) if key not in listed} | elsewhere.keys()
        deltas = [self._drop(listing.kind, key, elsewhere.get(key, "")) for key in sorted(gone)]
        for kind, key in list(self.refused):
            if kind == listing.kind and key not in listed:
                del self.refused[kind, key]
        if listing.afresh and listing.kind == "ResourceClaim":
            # Assumed plans go too: they were decided on a history that the server no longer has.
            unreadable = {refused.key for refused in listing.refused}
            outdated = [key for key in self._claims if key not in unreadable]
            deltas += [self._drop_claim(key) for key in outdated]
        if listing.afresh and listing.kind == "Pod":
            unreadable = {refused.key for refused in listing.refused}
            for key in [key for key in self._pods if key not in unreadable]:
                del self._pods[key]
        changed = listing.objects if listing.afresh else [it for it in listing.objects if not self._has(it)]
        deltas += [self._apply(Changed(listing.kind, thing)) for thing in changed]
        deltas += [self._apply(refused) for refused in listing.refused]
        return Delta.of(deltas)

    def _has(self, thing: ApiObject) -> bool:
        """Whether this version of a claim is known. It is for most claims of a large list."""
        known = self._claims.get(thing.key) if isinstance(thing, ResourceClaim) else None
        if known is None or ("ResourceClaim", thing.key) in self.refused:
            return False
        ours, theirs = known.metadata, thing.metadata
        return bool(ours.resource_version) and (ours.uid, ours.resource_version) == (
            theirs.uid,
            theirs.resource_version,
        )

    def _keys(self, kind: str) -> list[ObjectKey]:
        match kind:
            case "ResourceClaim":
                return list(self._claims)
            case "Pod":
                return list(self._pods)
        return [ObjectKey("", name) for name in self.supply.names(kind)]

    def _put(self, thing: ApiObject) -> Delta:
        put = _PUTS.get(type(thing))
        return NOTHING if put is None else put(self, thing)

    def _put_pod(self, pod: Pod) -> Delta:
        known = self._pods.get(pod.key)
        if known is not None and known.metadata.uid == pod.metadata.uid and older(pod, known):
            return NOTHING  # the answer to a patch came before the watch
        self._pods[pod.key] = pod
        return Delta(pods=frozenset([pod.key]))

    def _put_supply(self, thing: DeviceClass | Node | DeviceTaintRule) -> Delta:
        kind = type(thing).__name__
        return self._supplied(kind, thing.key.name) if self.supply.put(kind, thing) else NOTHING

    def _supplied(self, kind: str, name: str) -> Delta:
        """A class, a node or a rule changed."""
        return self._class_changed(name) if kind == "DeviceClass" else self._supply_changed()

    def _drop(self, kind: str, key: ObjectKey, stating: str = "") -> Delta:
        match kind:
            case "ResourceClaim" if key in self._claims:
                return self._drop_claim(key)
            case "Pod" if self._pods.pop(key, None) is not None:
                return Delta(pods=frozenset([key]))
            case "ResourceSlice":
                return self._drop_slice(key.name) | self._note_stating(key.name, stating)
            case "DeviceClass" | "Node" | "DeviceTaintRule" if self.supply.drop(kind, key.name):
                return self._supplied(kind, key.name)
        return NOTHING

    def _put_claim(self, claim: ResourceClaim) -> Delta:
        known = self._claims.get(claim.key)
        delta = Delta(claims=frozenset([claim.key]))
        if known is not None and known.metadata.uid != claim.metadata.uid:
            delta |= self._drop_claim(claim.key)
        elif known is not None and older(claim, known):
            return NOTHING
        self._claims[claim.key] = claim
        uid = claim.metadata.uid
        if claim.allocation is not None:
            self._assumed.pop(uid, None)
            if known is None or known.allocation is None or known.metadata.uid != uid:
                delta = replace(delta, allocated=frozenset([claim.key]))
            return delta | self._note(self._ledger.hold(Holder(uid, claim.key), claim.allocation))
        if uid in self._assumed:  # the write may be in flight, and this version may be older than it
            return delta
        return delta | self._note(self._ledger.release(uid))

    def _drop_claim(self, key: ObjectKey) -> Delta:
        uid = self._claims.pop(key).metadata.uid
        self._assumed.pop(uid, None)
        return Delta(claims=frozenset([key])) | self._note(self._ledger.release(uid))

    def _drop_slice(self, name: str) -> Delta:
        known = self.supply.inventory.known(name)
        if known is None:
            return NOTHING
        self._retain_draws(known.pool)
        self.supply.inventory.drop(name)
        return self._slices_changed(known.pool)

    def _note_stating(self, name: str, driver: str) -> Delta:
        return self._supply_changed() if self.supply.inventory.note_stating(name, driver) else NOTHING

    def _put_slice(self, source: ResourceSlice) -> Delta:
        known, block = self.supply.inventory.known(source.key.name), self.supply.inventory.encoded(source)
        if known is not None and block.means_the_same_as(known):
            return NOTHING
        self._retain_draws(block.pool)
        if known is not None:
            self._retain_draws(known.pool)
        self.supply.inventory.put(block)
        return self._slices_changed(block.pool, *([] if known is None else [known.pool]))

    def _slices_changed(self, *pools: PoolID) -> Delta:
        """A change of slices of some pools."""
        found = self._supply_changed()
        if not self.supply.counts_device_shares:
            return found
        held = [DeviceID(*pool, name) for pool in pools for name in self._ledger.held_in(pool)]
        return found | Delta(shares=frozenset(key for device in held for key in self._ledger.claims(device)))

    def _retain_draws(self, pool: PoolID) -> None:
        """Retain what held devices of a pool draw, before the first of its slices changes."""
        blocks = self.supply.inventory.blocks(pool)
        if blocks and pool not in self._draws_retained and (held := self._ledger.held_in(pool)):
            self.retained.retain(pool, blocks, held, self.supply.inventory.vocabulary)
        self._draws_retained.add(pool)

    def _retained_of(self, pool: PoolID) -> Mapping[str, Drawn]:
        return self.retained.of(pool)

    def _note(self, devices: set[DeviceID]) -> Delta:
        """Record devices whose state changed. A device counts as freed if no claim holds it exclusively."""
        if not devices:
            return NOTHING
        self._mark(devices)
        freed = frozenset(d.pool_id for d in devices if not self._ledger.is_held_alone(d))
        return Delta(freed=freed, devices=frozenset(devices))

    def _mark(self, devices: set[DeviceID]) -> None:
        """Record devices whose state changed for the next snapshot."""
        if devices:
            self._changed_devices |= devices
            self._snapshot = None
            if self.retained:
                self.retained.release(device for device in devices if not self._ledger.state(device).holders)

    def _supply_changed(self) -> Delta:
        self._snapshot = self._topology = None
        return SUPPLY

    def _columns_of(self, fleet: Fleet, layout: Layout | None) -> OccupancyColumns:
        """The columns of the fleet, copied from the previous columns where they are still valid."""
        if self._columns is not None and layout is not None and self._columns.follow(fleet, layout):
            return self._columns
        if self._columns is None or layout is not None:
            carried = self._columns if layout is not None and layout.previous is not None else None
            self._columns = OccupancyColumns(fleet, self._ledger, self.retained, layout, carried)
        return self._columns

    def _class_changed(self, name: str) -> Delta:
        self._snapshot = None
        found = Delta(classes=frozenset([name]))
        return found | self._supply_changed() if self.supply.taints_by(name) else found


_PUTS: Mapping[type, Callable[[Store, Any], Delta]] = {
    ResourceClaim: lambda store, thing: store._put_claim(thing),
    Pod: lambda store, thing: store._put_pod(thing),
    ResourceSlice: lambda store, thing: store._put_slice(thing),
    DeviceClass: lambda store, thing: store._put_supply(thing),
    Node: lambda store, thing: store._put_supply(thing),
    DeviceTaintRule: lambda store, thing: store._put_supply(thing),
}
"""Not by `match`: to ask pydantic whether an object is of another class costs as much as to store it. By the
names of the methods, which stores of other kinds replace."""


def _freed(nomination: Nomination) -> Delta:
    whole = any(place.drivers for place in nomination.places)  # which devices these are changes with slices
    return Delta(freed=frozenset(device.pool_id for device in nomination.devices), supply=whole)


def older(thing: ApiObject, known: ApiObject) -> bool:
    """Whether an object is older than the known version. resourceVersions of one kind are ordered numbers."""
    new, old = thing.metadata.resource_version, known.metadata.resource_version
    return new.isdigit() and old.isdigit() and int(new) < int(old)
