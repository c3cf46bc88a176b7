"""Events in a small world, drawn at random, and what is there once they have happened."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from hypothesis import strategies as st

from reconciler.api.objects.changes import Change, Changed, Refused, Removed, Replaced
from reconciler.api.objects.claims import Allocation, ResourceClaim
from reconciler.api.objects.meta import ApiObject, DeviceID, ObjectKey, PoolID
from reconciler.api.objects.plan import Plan
from reconciler.api.objects.semantics import (
    COMPATIBILITY_GROUPS,
    CONSUMABLE_CAPACITY,
    GATES,
    LIST_ATTRIBUTES,
    PARTITIONABLE_DEVICES,
    TAINT_RULES,
    Semantics,
    with_group_modes,
)
from reconciler.api.objects.slices import ResourceSlice
from reconciler.state.store import Store
from tests.tools.builders import (
    Object,
    claim,
    counter_slice,
    device,
    device_class,
    held,
    hold,
    labelled,
    node,
    node_selector,
    resource_slice,
    taint,
    taint_rule,
    typed,
    version,
)

Drawn = Mapping[str, Mapping[str, int]]
"""Counter set -> counter -> billionths"""

KINDS = ("ResourceSlice", "DeviceClass", "Node", "DeviceTaintRule", "ResourceClaim")
POOLS = st.sampled_from([("d", "p"), ("d", "q"), ("e", "p")])
NAMES = st.sampled_from(["A", "B", "C"])
CLAIMS = ("c1", "c2")
FIRST = {name: {"uid": f"{name}-u1", "resourceVersion": "10500"} for name in CLAIMS}
UIDS = ("u1", "u1", "u2")
SHARED: Object = {"allowMultipleAllocations": True}

RULES = [
    Semantics(),
    Semantics("1.36"),
    Semantics("1.36", frozenset(GATES) - {LIST_ATTRIBUTES, TAINT_RULES}),
    Semantics(gates=frozenset(GATES) - {PARTITIONABLE_DEVICES}),
    Semantics(gates=frozenset(GATES) - {CONSUMABLE_CAPACITY}),
    Semantics(gates=frozenset(GATES) - {COMPATIBILITY_GROUPS}),
    Semantics(group_modes=with_group_modes(["d=pairwise"])),
]


# -- objects

PLACES: list[Object] = [
    {"nodeName": "n"},
    {"nodeName": "m"},
    {"allNodes": True},
    {"nodeSelector": node_selector(labelled("zone", "a"))},
    {"nodeSelector": node_selector({"matchExpressions": [{"key": "zone", "operator": "Near"}]})},
    {},
]

PER_DEVICE = [place for place in PLACES if place]

DRAWS: st.SearchStrategy[Mapping[str, Mapping[str, str | int]]] = st.sampled_from(
    [
        {},
        {"g": {"m": 20}},
        {"g": {"m": 40, "k": "1m"}},
        {"g": {"m": 10}, "h": {"x": "3Gi"}},
        {"g": {"m": 0}},
        {"h": {"x": 1}},
    ]
)
STATED: st.SearchStrategy[Object] = st.sampled_from(
    [
        {},
        {},
        {"compatibleOnlyWith": {"expression": 'device.attributes["d"].model == "x"'}},
        {"compatibleOnlyWith": {"expression": "device.allowMultipleAllocations"}},
        {"compatibleOnlyWith": {"expression": "no CEL"}},
    ]
)
GROUPS: st.SearchStrategy[Object] = st.sampled_from(
    [
        {},
        {},
        {"compatibilityGroups": ["a"]},
        {"compatibilityGroups": ["a", "b"]},
        {"compatibilityGroups": ["c"]},
    ]
)
TAINTS = st.lists(st.sampled_from(["t1", "t2"]).map(taint), unique_by=lambda t: t["key"], max_size=2)


@st.composite
def some_devices(draw: st.DrawFn, *, per_device: bool) -> list[Object]:
    found = []
    for name in draw(st.lists(NAMES, max_size=3)):
        attributes: Mapping[str, Any] = draw(
            st.sampled_from([{}, {"model": "x"}, {"model": 1, "e/model": "x"}, {"v": version("no")}])
        )
        fields: Object = draw(st.sampled_from(PER_DEVICE)) if per_device else {}
        taints = draw(TAINTS)
        if draw(st.booleans()):
            fields = {**fields, **SHARED}
        made = device(
            name,
            attributes,
            draw(st.sampled_from([{}, {"mem": "4Gi"}, {"d/mem": "1Gi", "mem": "4Gi"}])),
            draw(DRAWS),
            **fields,
            **draw(STATED),
            **({"taints": taints} if taints else {}),
        )
        for entry in made.get("consumesCounters", ()):
            entry.update(draw(GROUPS))
        found.append(made)
    return found


@st.composite
def slices(draw: st.DrawFn) -> Object:
    driver, pool = draw(POOLS)
    per_device = draw(st.booleans())
    fields: Object = {
        "driver": driver,
        "pool": pool,
        "generation": draw(st.sampled_from([1, 1, 2])),
        "slices": draw(st.sampled_from([1, 2, 2])),
        **({"perDeviceNodeSelection": True} if per_device else draw(st.sampled_from(PLACES))),
    }
    name = draw(st.sampled_from(["s-1", "s-10", "s-2", "t"]))
    if draw(st.sampled_from([False, False, True])):
        sets: Mapping[str, Any] = draw(
            st.sampled_from(
                [
                    {"g": {"m": 40, "k": "3m"}, "h": {"x": "8Gi"}},
                    {"g": {"m": 40, "k": "3m"}},
                    {"h": {"x": "5Gi"}},
                ]
            )
        )
        return counter_slice(name, sets, **fields)
    return resource_slice(name, draw(some_devices(per_device=per_device)), **fields)


NODES = st.builds(
    lambda name, labels: node(name, **labels),
    st.sampled_from(["n", "m", "o"]),
    st.sampled_from([{}, {"zone": "a"}, {"zone": "b"}]),
)
CLASSES = st.builds(device_class, st.sampled_from("ab"), st.sampled_from("xy"))
TAINT_RULES_ = st.builds(
    taint_rule,
    st.sampled_from(["r1", "r2"]),
    st.sampled_from([None, {}, {"driver": "d"}, {"pool": "p", "device": "A"}, {"driver": "nobody"}]),
    st.sampled_from(["t1", "t2", "t3"]).map(taint),
)


@st.composite
def allocations(draw: st.DrawFn) -> Object:
    results = []
    for number in range(draw(st.integers(0, 3))):
        driver, pool = draw(POOLS)
        fields: Object = draw(
            st.sampled_from(
                [
                    {},
                    {},
                    {"shareID": f"share-{number}", "consumedCapacity": {"mem": "1Gi"}},
                    {"shareID": f"share-{number}"},
                    {"adminAccess": True},
                ]
            )
        )
        results.append(hold(draw(NAMES | st.just("gone")), driver=driver, pool=pool, **fields))
    return {"devices": {"results": results}}


@st.composite
def claims(draw: st.DrawFn) -> Object:
    made = claim(draw(st.sampled_from(CLAIMS)))
    uid = f"{made['metadata']['name']}-{draw(st.sampled_from(UIDS))}"
    if draw(st.booleans()):
        made["status"] = {"allocation": draw(allocations())}
    # One version is one content, as on a server; which of several contents is the newest is drawn.
    version = draw(st.sampled_from([9, 10, 10, 11])) * 1000 + crc32(json.dumps(made).encode()) % 1000
    made["metadata"] |= {"uid": uid, "resourceVersion": str(version)}
    return made


OBJECTS: dict[str, st.SearchStrategy[Object]] = {
    "ResourceSlice": slices(),
    "DeviceClass": CLASSES,
    "Node": NODES,
    "DeviceTaintRule": TAINT_RULES_,
    "ResourceClaim": claims(),
}


# -- events


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


# -- what is there at the end


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
                            draw.counter_set: {name: c.value.nanos for name, c in draw.counters.items()}
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
