"""Claims and the small rules that live on their models."""

import pytest

from reconciler.api.objects.claims import (
    LONGEST_KEY,
    Allocation,
    DeviceClaim,
    DeviceConstraint,
    DeviceSubRequest,
    ResourceClaim,
)
from reconciler.api.objects.meta import DeviceID, ObjectKey, PoolID

CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "c", "namespace": "ns", "unknown": 1},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "x", "count": 2}}]}},
}
ALLOCATION = {
    "devices": {
        "results": [
            {
                "request": "gpu",
                "driver": "d",
                "pool": "p",
                "device": "0",
                "shareID": "5c6d6a54-0f5a-4e59-8f6e-2b6d3b8a5d11",
                "consumedCapacity": {"memory": "1536Mi"},
            }
        ]
    },
    "allocationTimestamp": "2025-01-01T00:00:00Z",
}


def test_an_allocation_is_written_as_it_was_read():
    assert Allocation.model_validate(ALLOCATION).to_json() == ALLOCATION


def test_unknown_fields_are_ignored_and_unset_ones_not_written():
    claim = ResourceClaim.model_validate(CLAIM)
    assert claim.to_json()["metadata"] == {"name": "c", "namespace": "ns"}
    assert "status" not in claim.to_json()


def test_a_claim_without_requests_is_legal():
    claim = ResourceClaim.model_validate({**CLAIM, "spec": {}})
    assert claim.spec.devices.requests == ()


def test_a_claim_that_is_being_deleted_says_so():
    leaving = {**CLAIM, "metadata": {"name": "c", "deletionTimestamp": "2025-01-01T00:00:00Z"}}
    assert ResourceClaim.model_validate(leaving).deleting
    assert not ResourceClaim.model_validate(CLAIM).deleting


@pytest.mark.parametrize(("count", "wanted"), [({}, 1), ({"count": 0}, 1), ({"count": 3}, 3)])
def test_an_absent_or_zero_count_asks_for_one_device(count: dict[str, int], wanted: int):
    assert DeviceSubRequest.model_validate(count).wanted == wanted


@pytest.mark.parametrize(
    ("named", "request_name", "alternative", "applies"),
    [
        ([], "gpu", "", True),
        (["gpu"], "gpu", "", True),
        (["gpu"], "gpu", "big", True),
        (["gpu/big"], "gpu", "big", True),
        (["gpu/big"], "gpu", "small", False),
        (["gpu/big"], "gpu", "", False),
        (["nic"], "gpu", "", False),
    ],
)
def test_a_constraint_applies_to_the_requests_it_names(
    named: list[str], request_name: str, alternative: str, applies: bool
):
    constraint = DeviceConstraint.model_validate({"requests": named})
    assert constraint.applies_to(request_name, alternative) is applies


def test_keys_print_as_people_write_them():
    assert str(ObjectKey("ns", "c")) == "ns/c"
    assert str(ObjectKey("", "n1")) == "n1"
    assert str(DeviceID("d", "p", "0")) == "d/p/0"
    assert DeviceID("d", "p", "0").pool_id == PoolID("d", "p")


def with_parameters(text: str) -> ResourceClaim:
    """A claim with configuration for a driver."""
    opaque = {"driver": "d", "parameters": {"text": text}}
    return ResourceClaim.model_validate({**CLAIM, "spec": {"devices": {"config": [{"opaque": opaque}]}}})


@pytest.mark.parametrize("size", [0, LONGEST_KEY, 4 * LONGEST_KEY])
def test_equal_specs_have_equal_keys_and_others_have_not(size: int):
    one, same, other = (with_parameters("x" * size + end).spec for end in "yyz")
    assert one.key == same.key != other.key
    assert one == same  # although one of them may have its key
    assert len(one.key or b"") <= LONGEST_KEY


def test_a_spec_that_is_not_unicode_has_no_key():
    assert with_parameters("\ud800").spec.key is None


def test_a_changed_copy_of_a_spec_has_a_key_of_its_own():
    spec = with_parameters("x").spec
    before = spec.key
    assert spec.model_copy(update={"devices": DeviceClaim()}).key != before
    assert "key" not in spec.model_dump()
