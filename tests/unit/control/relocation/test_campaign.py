"""Whether what replaces a pod that was moved comes to the place that is held for it."""

from typing import Any

import pytest

from reconciler.api.objects.meta import DeviceID, ObjectKey, OwnerReference
from reconciler.control.relocation.ground import Victim
from reconciler.control.relocation.moves import Relocation, astray, replacement
from reconciler.state.nominations import HeldPlace
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, held, node, pod
from tests.tools.unit_pictures import intake, key

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
