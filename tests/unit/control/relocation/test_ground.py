"""A plan is dropped if anything that it rests on has changed while it was made, and only then."""

from collections.abc import Callable
from typing import Any

import pytest

from reconciler.api.objects.claims import ALLOCATED_AT, Allocation
from reconciler.api.objects.core import Pod, PodDisruptionBudget
from reconciler.api.objects.gangs import GANG, SIZE
from reconciler.api.objects.meta import DeviceID
from reconciler.api.objects.plan import Plan
from reconciler.api.versions.reading import read
from reconciler.control.intake import Intake
from reconciler.control.relocation.ground import Ground, Victim, changed
from reconciler.state.nominations import HeldPlace, Nomination, of_claim, of_pod, own_of
from tests.tools.small_fleet import DRIVER, Object, claim, device_class, devices, held, node, pod
from tests.tools.unit_pictures import intake, key, put, remove

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
    found = read(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": namespace, "uid": f"uid of {name}"},
            "spec": {"selector": {"matchLabels": labels}},
            "status": {"disruptionsAllowed": allowed},
        }
    )
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
    claimed = {"namespace": "default", "name": "data", "uid": "data"}
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "pv", "uid": "pv"},
        "spec": {
            "claimRef": claimed,
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
        },
    }
    bound = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data",
            "namespace": "default",
            "uid": "data",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {"volumeName": "pv"},
        "status": {"phase": "Bound"},
    }
    return [volume, bound]


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
