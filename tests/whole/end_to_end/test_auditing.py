"""Devices given twice, by whomever, are noticed."""

from typing import Any

import pytest

from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.control.decisions.allocating import Allocated, HeldTwice
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, held, node

ONE, OTHER = "5f1c7e0a-2b64-4d0e-9a51-3c8e6b0d9f10", "5f1c7e0a-2b64-4d0e-9a51-3c8e6b0d9f11"


def fleet() -> Cluster:
    slice_ = devices("n", "d0", "d1")
    slice_["spec"]["devices"][0]["allowMultipleAllocations"] = True
    admins = {"name": "team", "labels": {"resource.kubernetes.io/admin-access": "true"}}
    team = {"apiVersion": "v1", "kind": "Namespace", "metadata": admins}
    return Cluster([node("n"), device_class(), slice_, team])


def holding(name: str, **more: Any) -> dict[str, Any]:
    status = held(DRIVER, "n", "d0")
    status["allocation"]["devices"]["results"][0] |= more
    return {**claim(name, managed=False), "status": status}


@pytest.mark.parametrize(
    ("first", "second", "twice"),
    [
        pytest.param({}, {}, True, id="both alone"),
        pytest.param({}, {"shareID": ONE}, True, id="a share beside one alone"),
        pytest.param({"shareID": OTHER}, {"shareID": ONE}, False, id="two shares"),
        pytest.param({}, {"adminAccess": True}, False, id="administrative access beside one alone"),
    ],
)
async def test_a_device_held_twice_is_told_once(first: dict[str, Any], second: dict[str, Any], twice: bool):
    cluster = fleet()
    for name, more in {"a": first, "b": second}.items():
        raw = holding(name, **more)
        raw["metadata"]["namespace"] = "team"
        cluster.load(raw)
    cluster.load(claim("last"))
    async with reconciling(cluster) as running:
        await running.heard(Allocated)
    both = (ObjectKey("team", "a"), ObjectKey("team", "b"))
    expected = [HeldTwice(DeviceID(DRIVER, "n", "d0"), both)] if twice else []
    assert running.of(HeldTwice) == expected
