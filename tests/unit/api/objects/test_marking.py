"""An allocation of ours is known again, and one that others wrote later is not taken for it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from reconciler.api.objects.claims import (
    ALLOCATED_AT,
    ANNOUNCED,
    FINALIZER,
    AllocatedDevice,
    Allocation,
    DeviceAllocation,
    ResourceClaim,
    is_announced,
    is_ours,
    mark,
    signed,
)
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.plan import LaterPlan, Plan
from reconciler.api.versions.reading import read

STAMP = "2026-01-01T00:00:00Z"


def claim(
    *devices: str,
    stamp: str | None,
    said: str | None,
    config: Sequence[Any] = (),
    finalizers: Sequence[str] = (),
) -> ResourceClaim:
    results = [{"request": "r", "driver": "d", "pool": "p", "device": name} for name in devices]
    allocation: dict[str, Any] = {"devices": {"results": results, "config": list(config)}}
    if stamp is not None:
        allocation["allocationTimestamp"] = stamp
    notes = {} if said is None else {ALLOCATED_AT: said}
    metadata = {"name": "c", "namespace": "n", "annotations": notes, "finalizers": list(finalizers)}
    raw = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {},
        "status": {"allocation": allocation} if devices else {},
    }
    return cast("ResourceClaim", read(raw))


def marked(*devices: str) -> str:
    held = claim(*devices, stamp=None, said=None).allocation
    assert held is not None
    return mark(STAMP, held)


def test_the_timestamp_decides_where_there_is_one():
    assert is_ours(claim("a", stamp=STAMP, said=marked("a")))
    assert is_ours(claim("a", stamp=STAMP, said=STAMP)), "as written before there were fingerprints"
    assert not is_ours(claim("a", stamp="2026-01-01T00:00:01Z", said=marked("a")))
    assert not is_ours(claim("a", stamp=STAMP, said=None))
    assert not is_ours(claim(stamp=None, said=marked("a")))


def test_the_devices_decide_where_the_server_dropped_it():
    assert is_ours(claim("a", "b", stamp=None, said=marked("a", "b")))
    assert not is_ours(claim("a", stamp=None, said=marked("a", "b")))
    assert not is_ours(claim("b", "a", stamp=None, said=marked("a", "b")))
    assert not is_ours(claim("a", stamp=None, said=STAMP))
    assert not is_ours(claim("a", stamp=None, said=None))


def signatures(*devices: str) -> list[Any]:
    """The configurations of an allocation with the mark in it."""
    held = claim(*devices, stamp=None, said=None).allocation
    assert held is not None
    return [config.to_json() for config in signed(held, STAMP).devices.config]


def announced(*devices: str, stamp: str | None, config: Sequence[Any] = ()) -> ResourceClaim:
    return claim(*devices, stamp=stamp, said=ANNOUNCED, config=config)


def test_an_announced_allocation_has_the_mark_in_it():
    assert is_ours(announced("a", stamp=STAMP, config=signatures("a")))
    assert is_ours(announced("a", stamp=None, config=signatures("a"))), "the server dropped the timestamp"


def test_whoever_else_allocates_an_announced_claim_is_not_taken_for_us():
    later = "2026-01-01T00:00:01Z"
    assert not is_ours(announced("a", stamp=STAMP))
    assert not is_ours(announced("a", stamp=None))
    assert not is_ours(announced("a", stamp="", config=[{"source": "FromClaim"}]))
    assert not is_ours(announced("a", stamp=later, config=signatures("a"))), "copied from a claim's spec"
    assert not is_ours(announced("b", stamp=None, config=signatures("a")))
    assert not is_ours(announced(stamp=None))


@pytest.mark.parametrize("parameters", [None, [], "allocatedAt", {"allocatedAt": 1}, {"kind": "Other"}])
def test_other_configurations_of_ours_are_no_mark(parameters: Any):
    """Classes have some, which every allocator copies."""
    config = [{"source": "FromClass", "opaque": {"driver": "dra-reconciler.io", "parameters": parameters}}]
    assert not is_ours(announced("a", stamp=STAMP, config=config))
    assert is_ours(announced("a", stamp=STAMP, config=[*signatures("a"), *config]))


def test_the_mark_of_an_allocation_counts_only_if_it_was_announced():
    assert not is_ours(claim("a", stamp=STAMP, said=None, config=signatures("a")))
    assert not is_ours(claim("a", stamp=STAMP, said="2020-01-01T00:00:00Z x", config=signatures("a")))


def test_an_announcement_needs_the_finalizer():
    """Without it nobody would free the devices of a deleted claim."""
    assert is_announced(claim(stamp=None, said=ANNOUNCED, finalizers=[FINALIZER]))
    assert not is_announced(claim(stamp=None, said=ANNOUNCED))
    assert not is_announced(claim(stamp=None, said=marked("a"), finalizers=[FINALIZER]))
    assert not is_announced(claim(stamp=None, said=None, finalizers=[FINALIZER]))


# -- The allocation of a plan may be made when it is first read, and then it is like any other.


KEY, DEVICE = ObjectKey("default", "c"), DeviceID("d", "p", "gpu-0")


def allocation() -> Allocation:
    device = AllocatedDevice(request="r", driver="d", pool="p", device="gpu-0")
    return Allocation(devices=DeviceAllocation(results=(device,)))


class Making:
    """Counts how often an allocation was made."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> Allocation:
        self.times += 1
        return allocation()


def later(make: Making) -> Plan:
    return LaterPlan.of(KEY, "uid", "7", "n1", (DEVICE,), make)


def test_an_allocation_is_made_once_and_when_it_is_read():
    make = Making()
    plan = later(make)
    assert (plan.claim, plan.uid, plan.resource_version, plan.node) == (KEY, "uid", "7", "n1")
    assert (plan.annotations, plan.plain, make.times) == ((), (DEVICE,), 0)
    assert plan.allocation is plan.allocation
    assert make.times == 1


def test_a_plan_equals_the_one_that_was_made_at_once():
    made = Plan(KEY, "uid", "7", "n1", allocation())
    assert later(Making()) == made == later(Making()) == later(Making())
    other = replace(made, node="n2")
    assert later(Making()) != other != later(Making())


def test_a_plan_with_another_allocation_is_not_plain():
    """What is known without the allocation is not true of another one."""
    other = replace(later(Making()), allocation=Allocation())
    assert (other.allocation, other.plain) == (Allocation(), ())


def test_what_a_plan_does_not_have_is_an_error():
    make = Making()
    with pytest.raises(AttributeError, match="nodes"):
        later(make).nodes  # type: ignore[attr-defined]  # noqa: B018
    assert make.times == 0
