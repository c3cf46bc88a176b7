"""What the server has and we have assumed once events have happened: the plain twin of a store."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.api.objects.changes import Change, Changed, Refused, Removed, Replaced
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import ApiObject, DeviceID, ObjectKey, PoolID
from reconciler.api.objects.plan import Plan
from reconciler.api.objects.semantics import (
    Semantics,
)
from reconciler.api.objects.slices import ResourceSlice
from reconciler.state.store import Store
from tests.tools.store_events import Assume, Forget

Drawn = Mapping[str, Mapping[str, int]]
"""Counter set -> counter -> billionths"""


@dataclass
class World:
    """What the server has and we have assumed: plain dictionaries, and no more of the past than counts."""

    objects: dict[tuple[str, ObjectKey], ApiObject] = field(default_factory=dict)
    plans: dict[str, Plan] = field(default_factory=dict)
    retained: dict[DeviceID, Drawn] = field(default_factory=dict)
    """What held devices drew before their slices changed for the first time"""

    def copy(self) -> "World":
        return World(dict(self.objects), dict(self.plans), dict(self.retained))

    def assume(self, plan: Plan) -> None:
        self.plans[plan.uid] = plan
        self._release()

    def forget(self, plan: Plan) -> None:
        del self.plans[plan.uid]
        self._release()

    def _release(self) -> None:
        """Forget what is not held any more."""
        held = set(_held(self.objects.values(), self.plans.values()))
        self.retained = {taken: drawn for taken, drawn in self.retained.items() if taken in held}

    def _retain(self, pools: set[PoolID]) -> None:
        """Remember what held devices of some pools draw, before slices of these change."""
        held = set(_held(self.objects.values(), self.plans.values()))
        slices = [thing for thing in self.objects.values() if isinstance(thing, ResourceSlice)]
        for taken in (one for one in held - self.retained.keys() if one.pool_id in pools):
            for one in newest_complete(slices, taken):
                found = next((each for each in one.spec.devices if each.name == taken.device), None)
                if found is not None and found.consumes_counters:
                    self.retained.setdefault(
                        taken,
                        {
                            draw.counter_set: {name: c["value"].nanos for name, c in draw.counters.items()}
                            for draw in found.consumes_counters
                        },
                    )

    def _concerned(self, change: Change) -> set[PoolID]:
        """Pools of which a change adds, removes or replaces slices."""
        if change.kind != "ResourceSlice":
            return set()
        after: dict[ObjectKey, ResourceSlice] = {}
        match change:
            case Changed(object=ResourceSlice() as one):
                keys, after = {one.key}, {one.key: one}
            case Removed(key=key) | Refused(key=key):
                keys = {key}
            case Replaced(objects=objects):
                keys = {key for kind, key in self.objects if kind == "ResourceSlice"}
                after = {one.key: one for one in objects if isinstance(one, ResourceSlice)}
        found: set[PoolID] = set()
        for key in keys | after.keys():
            before, then = self.objects.get(("ResourceSlice", key)), after.get(key)
            assert before is None or isinstance(before, ResourceSlice)
            if before is None or then is None or before.spec != then.spec:
                found.update(one.pool_id for one in (before, then) if one is not None)
        return found

    def plan(self, event: Assume) -> Plan | None:
        """The plan that an event assumes, unless the claim is unknown or has devices already."""
        known = self.objects.get(("ResourceClaim", ObjectKey("default", event.claim)))
        if not isinstance(known, ResourceClaim) or known.allocation is not None:
            return None
        version = known.metadata.resource_version
        return Plan(known.key, known.metadata.uid, version, "n", event.allocation)

    def plan_of(self, event: Forget) -> Plan | None:
        return next((plan for plan in self.plans.values() if plan.claim.name == event.claim), None)

    def apply(self, change: Change) -> None:
        self._retain(self._concerned(change))
        self._apply(change)
        self._release()

    def _apply(self, change: Change) -> None:
        match change:
            case Changed(kind=kind, object=thing):
                self._put(kind, thing)
            case Removed(kind=kind, key=key):
                self._drop(kind, key)
            case Refused(kind=kind, key=key):
                if kind != "ResourceClaim":  # what it holds stays held
                    self._drop(kind, key)
            case Replaced(kind=kind, objects=objects, refused=refused):
                listed = {thing.key for thing in objects} | {one.key for one in refused}
                for known, key in list(self.objects):
                    if known == kind and key not in listed:
                        self._drop(kind, key)
                for thing in objects:
                    self._put(kind, thing)
                for one in refused:
                    self._apply(one)

    def _put(self, kind: str, thing: ApiObject) -> None:
        known = self.objects.get((kind, thing.key))
        if isinstance(thing, ResourceClaim) and isinstance(known, ResourceClaim):
            if known.metadata.uid != thing.metadata.uid:
                self._drop(kind, known.key)
                self._release()
            elif int(thing.metadata.resource_version) < int(known.metadata.resource_version):
                return
        self.objects[kind, thing.key] = thing
        if isinstance(thing, ResourceClaim) and thing.allocation is not None:
            self.plans.pop(thing.metadata.uid, None)
        if isinstance(thing, ResourceClaim):  # one claim of a listing after the other
            self._release()

    def _drop(self, kind: str, key: ObjectKey) -> None:
        gone = self.objects.pop((kind, key), None)
        if isinstance(gone, ResourceClaim):
            self.plans.pop(gone.metadata.uid, None)
            self._release()

    def afresh(self, rules: Semantics) -> Store:
        """A picture that has seen nothing but what is there, in another order."""
        made = Store(rules)
        for (kind, _), thing in sorted(self.objects.items(), reverse=True):
            made.apply(Changed(kind, thing))
        for plan in self.plans.values():
            made.assume(plan)
        return made


def _held(objects: Iterable[ApiObject], plans: Iterable[Plan]) -> Iterator[DeviceID]:
    allocations = [thing.allocation for thing in objects if isinstance(thing, ResourceClaim)]
    for allocation in [*allocations, *(plan.allocation for plan in plans)]:
        for result in allocation.devices.results if allocation else ():
            if not result.admin_access:
                yield DeviceID(result.driver, result.pool, result.device)


def newest_complete(slices: Iterable[ResourceSlice], of: DeviceID) -> list[ResourceSlice]:
    """The newest generation of a device's pool of which all slices are there, by name."""
    mine = [one for one in slices if one.pool_id == of.pool_id]
    for generation in sorted({one.spec.pool.generation for one in mine}, reverse=True):
        peers = sorted(
            (one for one in mine if one.spec.pool.generation == generation),
            key=lambda one: one.metadata.name.encode(),
        )
        if len(peers) == peers[0].spec.pool.resource_slice_count:
            return peers
    return []
