"""What the server has and we have assumed once events have happened: the plain twin of a store."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product, zip_longest
from typing import Any

from hypothesis import strategies as st

from reconciler.api.objects.changes import Change, Changed, Refused, Removed, Replaced
from reconciler.api.objects.claims import Allocation, ResourceClaim
from reconciler.api.objects.meta import ApiObject, DeviceID, ObjectKey, PoolID
from reconciler.api.objects.plan import Plan
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import ResourceSlice
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.store import Store
from tests.tools.builders import (
    Object,
    claim,
    counter_slice,
    device,
    device_class,
    held,
    hold,
    node,
    resource_slice,
    taint,
    taint_rule,
    typed,
)
from tests.tools.store_objects import CLAIMS, FIRST, KINDS, OBJECTS, SHARED, allocations, claims
from tests.tools.store_picture import picture, places


@dataclass(frozen=True)
class Assume:
    """A plan was decided; for the claim as it is known, if it may have one."""

    claim: str
    allocation: Allocation


@dataclass(frozen=True)
class Forget:
    """The plan that is assumed for a claim is taken back."""

    claim: str


@dataclass(frozen=True)
class Look:
    """Somebody takes a snapshot, and keeps it or lets go of it."""

    keep: bool


Event = Change | Assume | Forget | Look


def key_of(raw: Object) -> ObjectKey:
    return ObjectKey(raw["metadata"].get("namespace", ""), raw["metadata"]["name"])


@st.composite
def changes(draw: st.DrawFn, kinds: st.SearchStrategy[str]) -> Change:
    kind = draw(kinds)
    raw = draw(OBJECTS[kind])
    match draw(st.sampled_from(["changed"] * 5 + ["removed", "refused", "replaced"])):
        case "changed":
            return Changed(kind, typed(raw))
        case "removed":
            return Removed(kind, key_of(raw))
        case "refused":
            return Refused(kind, key_of(raw), "unreadable")
    several = draw(st.lists(OBJECTS[kind], max_size=3, unique_by=key_of))
    listed = {key_of(one) for one in several}
    refused = (
        [] if key_of(raw) in listed or draw(st.booleans()) else [Refused(kind, key_of(raw), "unreadable")]
    )
    return Replaced(kind, tuple(typed(one) for one in several), tuple(refused))


CLAIM_EVENTS: st.SearchStrategy[Event] = st.one_of(
    changes(st.just("ResourceClaim")),
    st.builds(Changed, st.just("ResourceClaim"), claims().map(typed)),
    st.builds(Assume, st.sampled_from(CLAIMS), allocations().map(Allocation.model_validate)),
    st.builds(Forget, st.sampled_from(CLAIMS)),
    st.builds(Look, st.booleans()),
)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    changes(st.sampled_from(KINDS)), changes(st.just("ResourceSlice")), CLAIM_EVENTS
)

BEGINNING = [
    Changed(raw["kind"], typed(raw))
    for raw in (
        node("n", zone="a"),
        node("m", zone="b"),
        device_class("a", "x"),
        taint_rule("r1", {"driver": "d"}, taint("t1")),
        taint_rule("r2", {"device": "A"}, taint("t2")),
        counter_slice(
            "t", {"g": {"m": 40, "k": "3m"}, "h": {"x": "8Gi"}}, slices=2, perDeviceNodeSelection=True
        ),
        resource_slice(
            "s-1",
            [
                device("A", {"model": "x"}, {"mem": "4Gi"}, {"g": {"m": 20}}, nodeName="n"),
                device("B", {}, {}, {"g": {"m": 40, "k": "1m"}}, allNodes=True),
                device("C", {}, {"mem": "4Gi"}, {"h": {"x": "3Gi"}}, nodeName="m", **SHARED),
            ],
            slices=2,
            perDeviceNodeSelection=True,
        ),
        resource_slice("s-2", [device("A", **SHARED), device("B")], pool="q", allNodes=True),
        counter_slice("u-1", {"g": {"m": 9}}, driver="e", slices=2, allNodes=True),
        resource_slice(
            "u-2",
            [device("A", draws={"g": {"m": 4}}), device("C", draws={"g": {"m": 5}}, **SHARED)],
            driver="e",
            slices=2,
            allNodes=True,
        ),
        held(
            "c0",
            hold("A", driver="e"),
            hold("C", driver="e", shareID="s", consumedCapacity={"mem": "1Gi"}),
            hold("A", pool="q", shareID="s", consumedCapacity={"mem": "2Gi"}),
        ),
        *({**claim(name), "metadata": {**claim(name)["metadata"], **FIRST[name]}} for name in CLAIMS),
    )
]
"""A fleet that can be used, and claims that wait: what random events alone would hardly arrive at."""


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


# -- Events played into a store and into a plain account of what is there: both must give the same picture.


def charge_retained(seen: Snapshot, retained: Mapping[DeviceID, Drawn]) -> dict[str, Any]:
    """The picture of a store that remembers nothing, with what others remember charged beside it.

    Counter for counter: the larger of what a device drew and what it draws in that generation, all
    generations for themselves. Then every device is judged again.
    """
    shown = picture(seen)
    of_row = _of_rows(seen)
    unusable = {(pool.id, generation) for pool in seen.fleet.pools for generation in pool.counters.problems}
    for counter in shown["counters"]:
        pool, generation, set_, name = counter
        if (pool, generation) in unusable:  # nothing of it is charged, whoever draws
            continue
        more = sum(
            max(drawn.get(set_, {}).get(name, 0) - _now(of_row, device, generation, set_, name), 0)
            for device, drawn in retained.items()
            if device.pool_id == pool
        )
        shown["counters"][counter] -= more
    over = {counter[:2] for counter, left in shown["counters"].items() if left < 0}
    for place, shown_device in shown["devices"].items():
        pool, generation, draws = of_row[place]
        left = {
            counter[2:]: left
            for counter, left in shown["counters"].items()
            if counter[:2] == (pool, generation)
        }
        fits = all(much <= left[name] for name, much in draws.items() if much)
        fits = fits and not (draws and (pool, generation) in over) and shown_device["open"]
        shown_device["fits"] = fits
        shown_device["free"] = (fits or shown_device["sharing"]) and not shown_device["held"]
    return shown


def _of_rows(seen: Snapshot) -> dict[Any, Any]:
    """Place of a device -> its pool, its generation, and what it draws: (set, counter) -> billionths."""
    drawn = picture(seen)["devices"]
    generations = {
        (pool.id, block.name): block.generation for pool in seen.fleet.pools for block in pool.blocks
    }
    found = {}
    for place in places(seen.fleet):
        pool = drawn[place]["id"].pool_id
        found[place] = (pool, generations[pool, place.slice], drawn[place]["draws"])
    return found


def _now(of_row: dict[Any, Any], device: DeviceID, generation: int, set_: str, name: str) -> int:
    return sum(
        draws.get((set_, name), 0)
        for place, (pool, of_generation, draws) in of_row.items()
        if (pool, of_generation, place.device) == (device.pool_id, generation, device.device)
    )


DEVICES = [DeviceID(*pool, name) for pool, name in product([("d", "p"), ("d", "q"), ("e", "p")], "ABC")]


def holders(store: Store) -> dict[DeviceID, list[Any]]:
    return {device: sorted(store.holders(device)) for device in DEVICES}


def happen(store: Store, world: World, event: Event, kept: list[tuple[Snapshot, World]]) -> None:
    """One event, in the store under test and in the plain account of what is there."""
    match event:
        case Look(keep=keep):
            seen = store.snapshot()
            if keep:
                kept.append((seen, world.copy()))
        case Assume():
            plan = world.plan(event)
            if plan is not None:
                store.assume(plan)
                world.assume(plan)
        case Forget():
            plan = world.plan_of(event)
            if plan is not None:
                store.forget(plan)
                world.forget(plan)
        case _:
            store.apply(event)
            world.apply(event)


def run(rules: Semantics, events: list[Event], ahead: list[int] | None = None) -> None:
    """Snapshots taken on the way are looked at only at the end: nothing that came later may show in them.

    ahead  after each event, how many steps towards the next snapshot are taken
    """
    store, world = Store(rules), World()
    kept: list[tuple[Snapshot, World]] = []
    for event, steps in zip_longest(events, ahead or [], fillvalue=0):
        if not isinstance(event, int):
            happen(store, world, event, kept)
        for _ in range(steps):
            store.supply.inventory.build_ahead(1)
    afresh = world.afresh(rules)
    assert picture(store.snapshot()) == expected(world, afresh)
    assert holders(store) == holders(afresh)
    for seen, then in kept:
        assert picture(seen) == expected(then, then.afresh(rules))


def expected(world: World, afresh: Store) -> dict[str, Any]:
    """The picture that a fresh listing gives, and beside it what is remembered of held devices."""
    return charge_retained(afresh.snapshot(), world.retained)
