"""Which claims and devices are ours."""

from typing import Any

import pytest

from reconciler.api.objects.claims import AllocatedDevice, Allocation, DeviceAllocation, ResourceClaim
from reconciler.control.ownership import Ownership
from tests.tools.small_fleet import claim
from tests.tools.unit_pictures import typed

BOTH = {"devices": {"requests": [
    {"name": "a", "exactly": {"deviceClassName": "gpu"}},
    {"name": "b", "firstAvailable": [
        {"name": "x", "deviceClassName": "nic"}, {"name": "y", "deviceClassName": "gpu"},
    ]},
]}}  # fmt: skip


def asking() -> ResourceClaim:
    found = typed({**claim("c"), "spec": BOTH})
    assert isinstance(found, ResourceClaim)
    return found


def given(**drivers: str) -> Allocation:
    """Request -> driver of its device; `b_x` stands for b/x."""
    devices = tuple(
        AllocatedDevice(request=request.replace("_", "/"), driver=driver, pool="p", device="d")
        for request, driver in drivers.items()
    )
    return Allocation(devices=DeviceAllocation(results=devices))


@pytest.mark.parametrize(
    ("ours", "allocation", "allowed"),
    [
        pytest.param({"alone": True}, given(a="any"), True, id="alone: everything"),
        pytest.param({"drivers": {"d"}}, given(a="d", b_x="d"), True, id="all of an owned driver"),
        pytest.param({"drivers": {"d"}}, given(a="d", b_x="e"), False, id="one of another driver"),
        pytest.param({"classes": {"gpu"}}, given(a="e", b_y="e"), True, id="owned class by alternative"),
        pytest.param({"classes": {"gpu"}}, given(a="e", b_x="e"), False, id="another class by alternative"),
        pytest.param(
            {"classes": {"gpu"}, "drivers": {"d"}}, given(a="e", b_x="d"), True, id="each by one of them"
        ),
        pytest.param({}, given(), True, id="nothing taken, nothing trespassed"),
    ],
)
def test_a_device_may_be_given_if_its_driver_or_its_class_is_owned(
    ours: dict[str, Any], allocation: Allocation, allowed: bool
):
    assert (Ownership(**ours).trespass(asking(), allocation) is None) is allowed


@pytest.mark.parametrize(
    ("ours", "foreign"),
    [
        pytest.param({"alone": True}, False, id="alone"),
        pytest.param({"drivers": {"d"}}, False, id="with drivers only the devices tell"),
        pytest.param({"classes": {"gpu", "nic"}}, False, id="all classes owned"),
        pytest.param({"classes": {"gpu"}}, True, id="an alternative of another class"),
    ],
)
def test_classes_that_are_not_ours_are_told_from_the_claim_alone(ours: dict[str, Any], foreign: bool):
    assert (Ownership(**ours).foreign_class(asking()) is not None) is foreign


@pytest.mark.parametrize(
    ("labels", "ours"),
    [({"dra-reconciler.io/managed": "true"}, True), ({"dra-reconciler.io/managed": "yes"}, False)],
)
def test_the_label_has_to_say_true(labels: dict[str, str], ours: bool):
    raw = claim("c")
    raw["metadata"]["labels"] = labels
    assert Ownership(alone=True).claims(typed(raw)) is ours
    assert Ownership(alone=True, all_claims=True).claims(typed(raw))


def test_without_anything_owned_nothing_is_written():
    assert not Ownership(all_claims=True).writes
