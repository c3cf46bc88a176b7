"""Which pods may be moved, when to plan, and what becomes of a plan that is carried out."""

from typing import Any

import pytest

from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import DeviceID, ObjectKey, OwnerReference
from reconciler.api.versions.reading import read
from reconciler.control.relocation.ground import Victim
from reconciler.control.relocation.moves import (
    MOVABLE,
    PATIENCE,
    Allowed,
    Calm,
    Relocation,
    astray,
    replacement,
)
from reconciler.state.nominations import HeldPlace
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, held, node, pod
from tests.tools.unit_pictures import intake, key


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
