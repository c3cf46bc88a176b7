"""The one mutable picture. Applies changes, remembers assumed plans, hands out snapshots.

Applying any sequence of changes gives the same picture as building it afresh from what is there
at the end, with one exception: what a held device drew before its slices changed is remembered, and only
who saw it knows it. Not async: nothing can happen between reading it and changing it.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from reconciler.api.objects.changes import Change, Changed, Refused, Removed, Replaced
from reconciler.api.objects.claims import DeviceClass, ResourceClaim
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.meta import ApiObject, DeviceID, ObjectKey, PoolID
from reconciler.api.objects.plan import Plan
from reconciler.api.objects.semantics import TAINT_RULES, TAINTS, Semantics
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.objects.taint_rules import DeviceTaintRule
from reconciler.state.delta import NOTHING, Delta
from reconciler.state.devices.encoding.block import Block, build
from reconciler.state.devices.encoding.parts import Encoder
from reconciler.state.devices.encoding.shedding import shed
from reconciler.state.devices.encoding.vocabulary import Vocabulary
from reconciler.state.devices.occupancy.ledger import DeviceState, Holder, Ledger
from reconciler.state.devices.occupancy.occupancy import Columns
from reconciler.state.devices.occupancy.retained_draws import RetainedDraws
from reconciler.state.devices.pools.assembly import Layout, assemble, lay_out
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.pools.pool import Pool, PoolBuilder
from reconciler.state.devices.pools.reach import NodeInfo
from reconciler.state.devices.pools.stepwise import Steps
from reconciler.state.devices.snapshot.snapshot import Snapshot, Topology

SPARE_VALUES = 1 << 18
"""Values that nothing may use any more before vocabularies are made anew. A value takes about 200 bytes."""
SPARE_FACTOR = 3
"""The same, as a multiple of those in use: with the vocabularies all columns are put together anew."""


class Store:
    """Slices, classes, nodes, taint rules, claims and pods, and who holds what."""

    def __init__(self, rules: Semantics) -> None:
        self.rules = rules
        self.refused: dict[tuple[str, ObjectKey], str] = {}
        """Objects on the server that we cannot read, and why"""
        self._encoder = Encoder(Vocabulary(), rules)
        self._builder = PoolBuilder(self._encoder, rules)
        self._most_values = SPARE_VALUES
        self._blocks: dict[str, Block] = {}
        self._members: dict[PoolID, dict[str, Block]] = {}
        self._pools: dict[PoolID, Pool] = {}
        self._stale_pools: set[PoolID] = set()
        self._built_ahead: dict[PoolID, tuple[int, ...]] = {}
        self._half_built: tuple[PoolID, tuple[int, ...], Steps[Pool]] | None = None
        self._classes: dict[str, DeviceClass] = {}
        self._nodes: dict[str, NodeInfo] = {}
        self._taint_rules: dict[str, DeviceTaintRule] = {}
        self._claims: dict[ObjectKey, ResourceClaim] = {}
        self._pods: dict[ObjectKey, Pod] = {}
        self._assumed: dict[str, Plan] = {}
        self._ledger = Ledger(rules)
        self._retained = RetainedDraws()
        self._looked_back: set[PoolID] = set()
        """Pools that were looked at before the change that is being made"""
        self._changed_devices: set[DeviceID] = set()
        self._fleet: Fleet | None = None
        self._tainted_by: list[DeviceTaintRule] = []
        self._topology: Topology | None = None
        self._columns: Columns | None = None
        self._class_view: Mapping[str, DeviceClass] | None = None
        self._snapshot: Snapshot | None = None
        self._version = 0

    # -- reading

    @property
    def claims(self) -> Mapping[ObjectKey, ResourceClaim]:
        return MappingProxyType(self._claims)

    @property
    def pods(self) -> Mapping[ObjectKey, Pod]:
        return MappingProxyType(self._pods)

    @property
    def slices(self) -> Iterable[ResourceSlice]:
        return (block.slice for block in self._blocks.values())

    @property
    def taint_rules(self) -> Iterable[DeviceTaintRule]:
        return self._taint_rules.values()

    def assumed(self, uid: str) -> Plan | None:
        """The plan for a claim that was decided and is not confirmed yet."""
        return self._assumed.get(uid)

    def state(self, device: DeviceID) -> DeviceState:
        """The holds on a device, assumed ones included. Not to be changed by the caller."""
        return self._ledger.state(device)

    def holders(self, device: DeviceID) -> list[Holder]:
        """The claims that hold a device, assumed ones included."""
        return self._ledger.state(device).holders

    def snapshot(self) -> Snapshot:
        """The picture as it is now. Frozen: later changes make another one."""
        if self._snapshot is not None:  # every change drops it
            return self._snapshot
        columns = self._columns_of(*self._put_together())
        if self._changed_devices:
            columns.update(self._changed_devices)
            self._changed_devices.clear()
        if self._topology is None:
            self._topology = Topology(columns.fleet, MappingProxyType(dict(self._nodes)), self.rules)
        self._version += 1
        if self._class_view is None:
            self._class_view = MappingProxyType(dict(self._classes))
        self._snapshot = Snapshot(self._version, self._topology, columns.freeze(), self._class_view)
        return self._snapshot

    def build_ahead(self, pools: int) -> bool:
        """Do part of what the next snapshot has to: build so many of the pools that have changed, or take one
        step of one that takes several. Whether any was left to build. What is built of a pool that changes
        again is dropped.
        """
        left = [pool for pool in self._stale_pools if pool not in self._built_ahead][:pools]
        for pool in left:
            if not self._build_on(pool):
                return True
            self._built_ahead[pool] = self._content(pool)
        return bool(left)

    # -- changing

    def apply(self, change: Change) -> Delta:
        """Make a change seen on the server part of the picture. Old news is ignored."""
        self._looked_back.clear()
        return self._apply(change)

    def _apply(self, change: Change) -> Delta:
        match change:
            case Changed(object=thing):
                self.refused.pop((change.kind, thing.key), None)
                return self._put(thing)
            case Removed(key=key):
                self.refused.pop((change.kind, key), None)
                return self._drop(change.kind, key)
            case Refused(key=key, reason=reason):
                self.refused[change.kind, key] = reason
                # What a claim holds does not become free because we cannot read its newest version.
                return NOTHING if change.kind == "ResourceClaim" else self._drop(change.kind, key)
            case Replaced():
                return self._replace(change)

    def assume(self, plan: Plan) -> None:
        """Count a decided plan as held, before it is written."""
        self._assumed[plan.uid] = plan
        self._note(self._ledger.hold(Holder(plan.uid, plan.claim), plan.allocation))

    def forget(self, plan: Plan) -> Delta:
        """Take back an assumed plan that was not and will not be written."""
        if self._assumed.get(plan.uid) != plan:
            return NOTHING
        del self._assumed[plan.uid]
        return self._note(self._ledger.release(plan.uid))

    def _replace(self, listing: Replaced) -> Delta:
        listed = {thing.key for thing in listing.objects} | {refused.key for refused in listing.refused}
        gone = [key for key in self._keys(listing.kind) if key not in listed]
        deltas = [self._drop(listing.kind, key) for key in gone]
        for kind, key in list(self.refused):
            if kind == listing.kind and key not in listed:
                del self.refused[kind, key]
        if listing.afresh and listing.kind == "ResourceClaim":
            # Also what we assume was decided for a past that did not happen.
            unreadable = {refused.key for refused in listing.refused}
            before = [key for key in self._claims if key not in unreadable]
            deltas += [self._drop_claim(key) for key in before]
        news = listing.objects if listing.afresh else [one for one in listing.objects if not self._has(one)]
        deltas += [self._apply(Changed(listing.kind, thing)) for thing in news]
        deltas += [self._apply(refused) for refused in listing.refused]
        return Delta.of(deltas)

    def _has(self, thing: ApiObject) -> bool:
        """Whether a claim is known in the very version listed, as most are of many thousands."""
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
            case "ResourceSlice":
                return [ObjectKey("", name) for name in self._blocks]
            case "DeviceClass":
                return [ObjectKey("", name) for name in self._classes]
            case "Node":
                return [ObjectKey("", name) for name in self._nodes]
            case "DeviceTaintRule":
                return [ObjectKey("", name) for name in self._taint_rules]
        return []

    def _put(self, thing: ApiObject) -> Delta:
        match thing:
            case ResourceClaim():
                return self._put_claim(thing)
            case Pod():
                self._pods[thing.key] = thing
                return Delta(pods=frozenset([thing.key]))
            case ResourceSlice():
                return self._put_slice(thing)
            case DeviceClass():
                if self._classes.get(thing.key.name) == thing:
                    return NOTHING
                self._classes[thing.key.name] = thing
                self._class_view = self._snapshot = None
                return Delta(classes=frozenset([thing.key.name]))
            case Node():
                return self._put_node(thing)
            case DeviceTaintRule():
                if self._taint_rules.get(thing.key.name) == thing:
                    return NOTHING
                self._taint_rules[thing.key.name] = thing
                return self._supply_changed()
        return NOTHING

    def _drop(self, kind: str, key: ObjectKey) -> Delta:
        match kind:
            case "ResourceClaim" if key in self._claims:
                return self._drop_claim(key)
            case "Pod" if self._pods.pop(key, None) is not None:
                return Delta(pods=frozenset([key]))
            case "ResourceSlice" if key.name in self._blocks:
                pool = self._blocks[key.name].slice.pool_id
                self._look_back(pool)
                del self._blocks[key.name]
                self._members[pool].pop(key.name)
                self._stale_pools.add(pool)
                return self._supply_changed()
            case "DeviceClass" if self._classes.pop(key.name, None) is not None:
                self._class_view = self._snapshot = None
                return Delta(classes=frozenset([key.name]))
            case "Node" if self._nodes.pop(key.name, None) is not None:
                return self._supply_changed()
            case "DeviceTaintRule" if self._taint_rules.pop(key.name, None) is not None:
                return self._supply_changed()
        return NOTHING

    def _put_claim(self, claim: ResourceClaim) -> Delta:
        known = self._claims.get(claim.key)
        delta = Delta(claims=frozenset([claim.key]))
        if known is not None and known.metadata.uid != claim.metadata.uid:
            delta |= self._drop_claim(claim.key)
        elif known is not None and _older(claim, known):
            return NOTHING
        self._claims[claim.key] = claim
        uid = claim.metadata.uid
        if claim.allocation is not None:
            self._assumed.pop(uid, None)
            return delta | self._note(self._ledger.hold(Holder(uid, claim.key), claim.allocation))
        if uid in self._assumed:  # the write may be under way; the assumption outlives older news
            return delta
        return delta | self._note(self._ledger.release(uid))

    def _drop_claim(self, key: ObjectKey) -> Delta:
        uid = self._claims.pop(key).metadata.uid
        self._assumed.pop(uid, None)
        return Delta(claims=frozenset([key])) | self._note(self._ledger.release(uid))

    def _put_slice(self, source: ResourceSlice) -> Delta:
        known = self._blocks.get(source.key.name)
        if known is not None and known.slice.spec == source.spec:
            return NOTHING
        self._look_back(source.pool_id)
        if known is not None:
            self._look_back(known.slice.pool_id)
            self._stale_pools.add(known.slice.pool_id)
            self._members[known.slice.pool_id].pop(source.key.name)
        block = build(source, self._encoder)
        self._blocks[source.key.name] = block
        self._members.setdefault(source.pool_id, {})[source.key.name] = block
        self._stale_pools.add(source.pool_id)
        return self._supply_changed()

    def _look_back(self, pool: PoolID) -> None:
        """Remember what held devices of a pool draw, before the first of its slices changes."""
        members = self._members.get(pool)
        if members and pool not in self._looked_back and (held := self._ledger.held_in(pool)):
            self._retained.retain(pool, members.values(), held, self._encoder.vocabulary)
        self._looked_back.add(pool)

    def _put_node(self, node: Node) -> Delta:
        info = NodeInfo(node.key.name, node.metadata.labels, frozenset(node.status.declared_features))
        if self._nodes.get(info.name) == info:  # most news of a node is its heartbeat
            return NOTHING
        self._nodes[info.name] = info
        return self._supply_changed()

    def _note(self, devices: set[DeviceID]) -> Delta:
        """Devices whose state changed. Reported as freed when nobody holds them alone any more."""
        if devices:
            self._changed_devices |= devices
            self._snapshot = None
            if self._retained:
                self._retained.release(device for device in devices if not self._ledger.state(device).holders)
        freed = frozenset(d.pool_id for d in devices if not self._ledger.state(d).alone)
        return Delta(freed=freed, devices=frozenset(devices))

    def _supply_changed(self) -> Delta:
        self._topology = self._snapshot = None
        return Delta(supply=True)

    def _put_together(self) -> tuple[Fleet, Layout | None]:
        """The fleet, and its layout if it is a new one. Only pools whose slices changed are built anew."""
        rules = self._effective_rules()
        if self._fleet is not None and not self._stale_pools and rules == self._tainted_by:
            return self._fleet, None
        if self._encoder.vocabulary.size > self._most_values:
            self._shed_values()
        for pool in self._stale_pools:
            if pool not in self._built_ahead or self._built_ahead[pool] != self._content(pool):
                self._build(pool)
        self._built_ahead.clear()
        layout = lay_out(self._pools, self._stale_pools, self._fleet if rules == self._tainted_by else None)
        self._stale_pools.clear()
        self._fleet = assemble(layout, rules, self._encoder.vocabulary, self._builder.table)
        self._tainted_by = rules
        return self._fleet, layout

    def _shed_values(self) -> None:
        """Make vocabularies anew if most values are of slices that are gone."""
        in_use = self._encoder.vocabulary.size if self._fleet is None else self._fleet.values_in_use
        if self._encoder.vocabulary.size > SPARE_VALUES + (1 + SPARE_FACTOR) * in_use:
            self._encoder, self._blocks = shed(self._blocks, self._encoder.vocabulary, self.rules)
            for name, block in self._blocks.items():
                self._members[block.slice.pool_id][name] = block
            self._builder.adopt(self._encoder)
            self._stale_pools.update(self._members)
            self._fleet = None
            in_use = self._encoder.vocabulary.size
        self._most_values = SPARE_VALUES + (1 + SPARE_FACTOR) * in_use

    def _build(self, pool: PoolID) -> None:
        while not self._build_on(pool):
            pass

    def _build_on(self, pool: PoolID) -> bool:
        """Take a step towards a pool, from where it was put down unless it changed. Whether it is built."""
        if not self._members.get(pool):
            self._members.pop(pool, None)
            self._pools.pop(pool, None)
            return True
        content = self._content(pool)
        if self._half_built is None or self._half_built[:2] != (pool, content):
            members = tuple(self._members[pool].values())
            self._half_built = pool, content, self._builder.build(pool, members, self._retained.of(pool))
        half_built, self._half_built = self._half_built, None
        try:
            next(half_built[2])
        except StopIteration as done:
            self._pools[pool] = done.value
            return True
        self._half_built = half_built
        return False

    def _content(self, pool: PoolID) -> tuple[int, ...]:
        """Tells a pool from what it was: blocks are never changed, and a built pool keeps its own alive."""
        return tuple(map(id, self._members.get(pool, {}).values()))

    def _columns_of(self, fleet: Fleet, layout: Layout | None) -> Columns:
        """The columns of the fleet, carried over from those of the fleet before as far as they stand."""
        if self._columns is None or layout is not None:
            carried = self._columns if layout is not None and layout.previous is not None else None
            self._columns = Columns(fleet, self._ledger, self._retained, layout, carried)
        return self._columns

    def _effective_rules(self) -> list[DeviceTaintRule]:
        if not (self._taint_rules and self.rules.has(TAINTS) and self.rules.has(TAINT_RULES)):
            return []
        return [self._taint_rules[name] for name in sorted(self._taint_rules)]


def _older(claim: ResourceClaim, known: ResourceClaim) -> bool:
    """Whether a version is older than the one we have. Versions of one resource are ordered numbers."""
    new, old = claim.metadata.resource_version, known.metadata.resource_version
    return new.isdigit() and old.isdigit() and int(new) < int(old)
