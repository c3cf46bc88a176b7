"""A plan is dropped if anything that it rests on has changed while it was made, and only then."""

from collections.abc import Callable
from typing import Any

import pytest

from reconciler.api.objects.claims import ALLOCATED_AT, Allocation
from reconciler.api.objects.core import Pod, PodDisruptionBudget
from reconciler.api.objects.gangs import GANG, SIZE
from reconciler.api.objects.meta import DeviceID, ObjectKey, OwnerReference
from reconciler.api.objects.plan import Plan
from reconciler.api.versions.reading import read
from reconciler.control.intake import Intake
from reconciler.control.relocation.ground import Ground, Victim, changed
from reconciler.control.relocation.moves import (
    MOVABLE,
    PATIENCE,
    Allowed,
    Calm,
    Relocation,
    astray,
    replacement,
)
from reconciler.state.nominations import HeldPlace, Nomination, of_claim, of_pod, own_of
from tests.tools import small_fleet
from tests.tools.small_fleet import DRIVER, Object, claim, device_class, devices, held, node, pod
from tests.tools.unit_pictures import intake, key, put, remove
from tests.tools.volume_scenarios import volume, volume_claim

DEVICE = DeviceID(DRIVER, "a", "d0")
LEAVING = (Victim(key("x"), "uid of x", ((key("x"), "uid of x"),)),)
PLACES = (HeldPlace("a", (DEVICE,), (("pods", 1),)),)
"""Pod `x` leaves node `a`; pod `p` gets its device."""


def holding(name: str, device: str, on: str = "a", user: str = "") -> Object:
    status = held(DRIVER, on, device, on=on)
    status["reservedFor"] = [{"resource": "pods", "name": user or name, "uid": f"uid of {user or name}"}]
    one = claim(name)
    one["metadata"]["annotations"] = {ALLOCATED_AT: "x"}
    return {**one, "status": status}


def running(name: str, on: str = "a", **metadata: Any) -> Object:
    made = pod(name, name, gates=(), nodeName=on)
    made["metadata"] |= metadata
    return {**made, "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}


FAILED = {"phase": "Failed"}
GANG_OF_TWO: dict[str, Any] = {"annotations": {GANG: "g", SIZE: "1"}}


def fleet() -> Intake:
    """Pods `x` and `y` hold both devices of node `a`, `z` one of two of node `b`. `x` and `y` are a gang."""
    return intake(
        device_class(), node("a"), node("b"), devices("a", "d0", "d1"), devices("b", "d0", "d1"),
        holding("x", "d0"), running("x", **GANG_OF_TWO),
        holding("y", "d1"), running("y", **GANG_OF_TWO),
        holding("z", "d0", "b"), running("z", "b"),
        claim("wanted"), claim("other"), pod("p", "wanted", priority=10),
    )  # fmt: skip


def budget(
    name: str = "all", allowed: int = 1, namespace: str = "default", **labels: str
) -> PodDisruptionBudget:
    made = small_fleet.budget(name, allowed, selector={"matchLabels": labels})
    found = read({**made, "metadata": {"name": name, "namespace": namespace, "uid": f"uid of {name}"}})
    assert isinstance(found, PodDisruptionBudget)
    return found


Change = Callable[[Intake], object]


def told(
    change: Change,
    before: tuple[PodDisruptionBudget, ...] = (),
    after: tuple[PodDisruptionBudget, ...] | None = None,
) -> str:
    """What has changed of the plan after a change."""
    picture = fleet()
    ground = Ground.of(picture.store, picture.nodes.fork(), picture.groups.fork(), before)
    waiting = picture.store.pods[key("p")]
    change(picture)
    now = Ground.of(picture.store, picture.nodes, picture.groups, before if after is None else after)
    wanted, own = [key("wanted")], own_of(waiting)
    return changed(ground, now, LEAVING, PLACES, waiting=[waiting], wanted=wanted, own=own)


def nominate(name: str, on: str = "a", device: str = "d0", deadline: str = "2026-01-01T12:00:00Z") -> Change:
    place = HeldPlace(on, (DeviceID(DRIVER, on, device),), ())
    one = Nomination(of_claim(key(name)), (place,), 0, 10.0, deadline)
    return lambda picture: picture.nominating.hold(one, "a test")


def cordoned(name: str) -> Object:
    return {**node(name), "spec": {"unschedulable": True}}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda it: remove(it, "Pod", "x"), "pod default/x changed"),
        (lambda it: put(it, running("x", uid="another", **GANG_OF_TWO)), "pod default/x changed"),
        (lambda it: put(it, running("x", labels={"app": "a"}, **GANG_OF_TWO)), "pod default/x changed"),
        (lambda it: put(it, running("x")), "pod default/x changed"),
        (lambda it: put(it, {**running("x", **GANG_OF_TWO), "status": FAILED}), "pod default/x changed"),
        (lambda it: put(it, pod("p", "wanted", priority=11)), "pod default/p changed"),
        (lambda it: put(it, claim("x")), "claim default/x changed"),
        (lambda it: put(it, holding("x", "d0", user="y")), "claim default/x changed"),
        (lambda it: put(it, claim("wanted", 2)), "claim default/wanted changed"),
        (lambda it: put(it, holding("wanted", "d1", "b")), "claim default/wanted changed"),
        (lambda it: remove(it, "Pod", "y"), "pod default/y, which is of a gang of the plan, changed"),
        (lambda it: put(it, cordoned("a")), "node a changed"),
        (lambda it: put(it, running("new")), "the pods on node a changed"),
        (lambda it: put(it, devices("a", "d0", "d1", "d2")), f"pool {DRIVER}/a changed"),
        (
            lambda it: put(it, claim("y")),
            f"claim default/y, which holds devices of pool {DRIVER}/a, changed",
        ),
        (lambda it: put(it, device_class(driver="another")), "a DeviceClass changed"),
        (nominate("other"), "the room that is held for claim default/other changed"),
    ],
)  # fmt: skip
async def test_what_the_plan_rests_on_is_seen(change: Change, why: str):
    assert told(change) == why


@pytest.mark.parametrize(
    "change",
    [
        lambda it: put(it, claim("new")),
        lambda it: put(it, holding("other", "d1", "b")),
        lambda it: remove(it, "Pod", "z"),
        lambda it: put(it, running("new", "b")),
        lambda it: put(it, cordoned("b")),
        lambda it: put(it, devices("b", "d0")),
        lambda it: put(it, {**node("a"), "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
        lambda it: put(it, pod("later", "other", priority=10)),
        nominate("other", "b", "d1"),
        nominate("wanted"),
    ],
)
async def test_a_change_elsewhere_does_not_stop_it(change: Change):
    assert told(change) == ""


@pytest.mark.parametrize(
    ("before", "after", "stops"),
    [
        ((budget(),), (budget(),), False),
        ((budget(allowed=2),), (budget(allowed=1),), True),
        ((), (budget(),), True),
        ((budget(),), (), True),
        ((), (budget(app="another"),), False),
        ((), (budget(namespace="elsewhere"),), False),
    ],
    ids=["same", "fewer", "new", "gone", "other pods", "other namespace"],
)
async def test_only_the_budgets_of_those_who_leave_count(before: Any, after: Any, stops: bool):
    assert told(lambda _: None, before, after) == ("the budgets of pod default/x changed" if stops else "")


ZONE = "topology.kubernetes.io/zone"


def minding(**spec: Any) -> Pod:
    """The waiting pod, with affinity, spread or volumes."""
    found = read({**pod("p", "wanted", priority=10), "spec": {**pod("p", "wanted")["spec"], **spec}})
    assert isinstance(found, Pod)
    return found


def affinity(kind: str) -> Any:
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": ZONE}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


SPREAD = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "db"}},
}


def comes(app: str, on: str) -> Change:
    return lambda picture: put(picture, running(app, on, labels={"app": app}))


VOLUME = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}


def storage(zone: str) -> list[Object]:
    """A bound claim whose volume can be used in one zone."""
    bound = volume_claim("data", volume="pv") | {"status": {"phase": "Bound"}}
    bound["metadata"]["uid"] = "data"
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    found = volume("pv", of="data", uid="pv")
    found["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return [found, bound]


@pytest.mark.parametrize(
    ("spec", "change", "stops"),
    [
        ({"affinity": affinity("podAffinity")}, comes("db", "b"), True),
        ({"affinity": affinity("podAffinity")}, comes("web", "b"), False),
        ({"affinity": affinity("podAntiAffinity")}, comes("db", "c"), True),
        ({"affinity": affinity("podAntiAffinity")}, comes("db", "b"), False),
        ({"topologySpreadConstraints": [SPREAD]}, comes("db", "b"), True),
        ({"volumes": [VOLUME]}, lambda it: put(it, *storage("z2")), True),
        ({"volumes": [VOLUME]}, lambda it: put(it, claim("other", 2)), False),
        ({}, lambda it: put(it, *storage("z2")), False),
    ],
    ids=[
        "near", "not near", "away", "away elsewhere", "spread", "volume", "same volume", "no volume",
    ],
)  # fmt: skip
async def test_volumes_and_pods_elsewhere_count_if_the_pod_minds_them(
    spec: Any, change: Change, *, stops: bool
):
    """Nodes `a` and `c` are in one zone, `b` in another; the pod is to go to `a`."""
    picture, waiting = fleet(), minding(**spec)
    put(picture, *(node(name, **{ZONE: zone}) for name, zone in (("a", "z1"), ("b", "z2"), ("c", "z1"))))
    put(picture, *storage("z1"))
    ground = Ground.of(picture.store, picture.nodes.fork(), picture.groups.fork(), ())
    change(picture)
    now = Ground.of(picture.store, picture.nodes, picture.groups, ())
    why = "the volumes of pod default/p, or pods that it must be near to or away from, changed"
    assert changed(ground, now, LEAVING, PLACES, waiting=[waiting]) == (why if stops else "")


async def test_a_later_deadline_of_the_same_room_changes_nothing():
    picture = fleet()
    nominate("other")(picture)
    ground = Ground.of(picture.store, picture.nodes.fork(), picture.groups.fork(), ())
    nominate("other", deadline="2026-01-01T13:00:00Z")(picture)
    now = Ground.of(picture.store, picture.nodes, picture.groups, ())
    own = frozenset([of_pod(key("p"))])
    assert changed(ground, now, LEAVING, PLACES, own=own) == ""


async def test_the_answer_to_a_write_is_no_change():
    """An allocation that was assumed is confirmed: nothing else holds a device."""
    picture = fleet()
    status = holding("other", "d1")["status"]
    plan = Plan(key("other"), "uid of other", "1", "a", Allocation.model_validate(status["allocation"]))
    picture.assume(plan)
    remove(picture, "ResourceClaim", "y")
    ground = Ground.of(picture.store, picture.nodes.fork(), picture.groups.fork(), ())
    put(picture, {**claim("other"), "status": {"allocation": status["allocation"]}})
    now = Ground.of(picture.store, picture.nodes, picture.groups, ())
    assert changed(ground, now, LEAVING, PLACES) == ""


# -- Which pods may be moved, when to plan, and what becomes of a plan that is carried out.


def labelled(movable: str | None, priority: int | None = None) -> Pod:
    raw = pod("p") if priority is None else pod("p", priority=priority)
    raw["metadata"]["labels"] = {} if movable is None else {MOVABLE: movable}
    found = read(raw)
    assert isinstance(found, Pod)
    return found


@pytest.mark.parametrize(
    ("movable", "namespaces", "permitted"),
    [
        (None, (), False),
        ("true", (), True),
        ("yes", (), False),
        (None, ("default",), True),
        (None, ("other",), False),
        ("true", ("other",), True),
        ("false", ("default",), False),
    ],
)
def test_pods_are_opted_in(movable: str | None, namespaces: tuple[str, ...], permitted: bool):
    """By their label, or by their namespace unless the label says otherwise."""
    assert Allowed(frozenset(namespaces), 0).permits(labelled(movable)) is permitted


@pytest.mark.parametrize(("priority", "permitted"), [(None, True), (5, True), (6, False)])
def test_pods_of_a_higher_priority_are_not(priority: int | None, permitted: bool):
    assert Allowed(frozenset(), 5).permits(labelled("true", priority)) is permitted


def test_a_plan_is_due_after_a_calm_time():
    calm = Calm(10.0)
    assert not calm.due("a", 0.0)
    assert not calm.due("a", 9.9)
    assert calm.due("a", 10.0)


def test_every_change_starts_the_calm_time_anew():
    calm = Calm(10.0)
    calm.due("a", 0.0)
    assert not calm.due("b", 9.0)
    assert not calm.due("b", 18.9)
    assert calm.due("b", 19.0)


def test_nothing_is_planned_twice_from_one_state():
    calm = Calm(10.0)
    calm.due("a", 0.0)
    assert calm.due("a", 10.0)
    calm.planned("a", 10.0, 11.0)
    assert not calm.due("a", 1e6)
    calm.again()
    assert calm.due("a", 1e6)


def test_a_fleet_that_never_rests_has_advice_now_and_then_but_is_not_at_rest():
    calm, due = Calm(10.0), []
    for second in range(201):
        if calm.due(second, float(second)):
            due.append(second)
            assert not calm.rests(float(second))
            calm.planned(second, float(second), float(second))
    assert due == [10 * PATIENCE, 20 * PATIENCE]


def test_what_was_planned_without_rest_is_planned_again_at_rest():
    """Pods move only then."""
    calm = Calm(10.0)
    calm.due("a", 0.0)
    assert calm.due("b", 10.0 * PATIENCE)
    assert not calm.rests(10.0 * PATIENCE)
    calm.planned("b", 10.0 * PATIENCE, 10.0 * PATIENCE)
    assert not calm.due("b", 10.0 * PATIENCE + 9)
    assert calm.due("b", 10.0 * PATIENCE + 10)


WEB = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": True}
PLACE = (DeviceID(DRIVER, "b", "d0"), DeviceID(DRIVER, "b", "d1"))
MOVE = Relocation(
    Victim(ObjectKey("default", "old"), "1", ()),
    OwnerReference(kind="ReplicaSet", name="web", uid="w", controller=True),
    0,
    "a",
    (),
    HeldPlace("b", PLACE),
    "a/whole",
)


def new(*claims: str) -> dict[str, Any]:
    made = pod("new", *claims)
    made["metadata"] |= {"ownerReferences": [WEB], "uid": "2"}
    return made


def of_new(name: str, device: str | None) -> dict[str, Any]:
    """A claim that was made for the new pod, with a device or without."""
    made = claim(name, managed=False)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "new", "uid": "2", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made if device is None else {**made, "status": held(DRIVER, "b", device, on="b")}


@pytest.mark.parametrize(
    ("first", "second", "came", "why"),
    [
        (None, None, False, ""),
        ("d0", None, False, ""),
        ("d0", "d1", True, ""),
        ("d2", None, False, "pod default/new, which replaces pod default/old, got other devices"),
        ("d0", "d2", False, "pod default/new, which replaces pod default/old, got other devices"),
    ],
    ids=["waits", "half", "all", "elsewhere", "half elsewhere"],
)
async def test_who_has_a_part_of_its_place_may_still_get_the_rest(
    first: str | None, second: str | None, came: bool, why: str
):
    """Its claims are written one after the other."""
    store = intake(
        device_class(),
        node("b"),
        devices("b", "d0", "d1", "d2"),
        new("x", "y"),
        of_new("x", first),
        of_new("y", second),
    ).store
    found = replacement(MOVE, store)
    assert (found is not None and found.key == key("new")) == came
    assert astray(MOVE, frozenset(), store) == why


async def test_a_device_of_admin_access_is_no_other_place():
    """Its claims with admin access may be written before the one that holds the place."""
    admin = of_new("x", "d2")
    (result,) = admin["status"]["allocation"]["devices"]["results"]
    result["adminAccess"] = True
    objects = device_class(), node("b"), devices("b", "d0", "d1", "d2"), new("x", "y"), admin
    store = intake(*objects, of_new("y", None)).store
    assert astray(MOVE, frozenset(), store) == ""


async def test_who_was_there_before_replaces_nobody():
    store = intake(device_class(), node("b"), devices("b", "d2"), new("x"), of_new("x", "d2")).store
    assert astray(MOVE, frozenset({"2"}), store) == ""
