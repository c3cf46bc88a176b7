"""The allocation of a plan may be made when it is first read, and then it is like any other."""

from dataclasses import replace

import pytest

from reconciler.api.objects.claims import AllocatedDevice, Allocation, DeviceAllocation
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.plan import LaterPlan, Plan

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
