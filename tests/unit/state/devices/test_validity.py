"""A slow answer is valid only if its inputs are unchanged."""

import pytest

from reconciler.api.objects.changes import Changed
from reconciler.api.objects.meta import DeviceID
from reconciler.state.devices.snapshot import still_valid
from reconciler.state.store import Store
from reconciler.state.trial import load
from tests.tools.builders import (
    DRIVER,
    Object,
    counter_slice,
    device,
    device_class,
    held,
    hold,
    node,
    resource_slice,
    store,
    taint,
    taint_rule,
    typed,
)

CHOSEN = DeviceID(DRIVER, "p", "a")


def drawing(name: str, counters: str) -> Object:
    return device(name, draws={counters: {"m": "1"}})


def partitioned(name: str, *devices: Object, pool: str = "p", on: str = "n") -> Object:
    return resource_slice(name, list(devices), pool=pool, nodeName=on, slices=2)


SLICE = partitioned("s", drawing("a", "g"), drawing("beside", "g"), drawing("apart", "h"))
COUNTERS = counter_slice("counters", {"g": {"m": "4"}, "h": {"m": "4"}}, pool="p", slices=2, nodeName="n")
OTHER = resource_slice("t", [device("x")], pool="q", nodeName="n")


def fresh_store() -> Store:
    return store(node("n"), device_class(), SLICE, COUNTERS, OTHER)


def after(*changes: Object, whole: bool = False) -> bool:
    """Whether the choice of one device is still valid after some changes."""
    state = fresh_store()
    before = state.snapshot()
    load(state, map(typed, changes))
    return still_valid("n", [CHOSEN], before, state.snapshot(), whole=whole)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([], id="nothing"),
        pytest.param([held("c", hold("apart"))], id="a device of another counter set was taken"),
        pytest.param([held("c", hold("x", pool="q"))], id="a device of another pool was taken"),
        pytest.param([resource_slice("t", [device("y")], pool="q", nodeName="n")], id="another pool changed"),
        pytest.param(
            [resource_slice("0", [device("y")], pool="0", nodeName="n")], id="a pool came before it"
        ),
        pytest.param([node("m")], id="there is another node"),
    ],
)
def test_a_choice_stays_valid_while_its_inputs_are_unchanged(changes: list[Object]):
    assert after(*changes)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(held("c", hold("a")), id="the device was taken"),
        pytest.param(held("c", hold("beside")), id="its counter set was drawn from"),
        pytest.param(partitioned("s", drawing("a", "g")), id="its slice is another"),
        pytest.param(node("n", zone="z"), id="the node is labelled otherwise"),
        pytest.param(device_class("other"), id="there is another class"),
        pytest.param(taint_rule("r", {"device": "a"}, taint("k")), id="a rule taints it"),
    ],
)
def test_a_choice_is_invalid_when_an_input_changes(change: Object):
    assert not after(change)


def test_a_request_for_all_devices_needs_unchanged_slices():
    other = resource_slice("t", [device("y")], pool="q", nodeName="n")
    assert not after(other, whole=True)
    assert after(held("c", hold("x", pool="q")), whole=True)


def test_a_device_that_was_taken_and_freed_again_is_valid():
    state = fresh_store()
    before = state.snapshot()
    state.apply(Changed("ResourceClaim", typed(held("c", hold("a")))))
    assert not still_valid("n", [CHOSEN], before, state.snapshot())
    freed = {**held("c"), "status": {}}
    state.apply(Changed("ResourceClaim", typed(freed)))
    assert still_valid("n", [CHOSEN], before, state.snapshot())
