"""Pools that are built before the next picture is asked for, piece by piece, and change meanwhile."""

import pytest

from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.state.store import Store
from tests.tools.builders import device, node, resource_slice, typed
from tests.tools.store_picture import picture

STATED = ("device.allowMultipleAllocations", "no CEL", 'device.driver == "d"')
STEPS = range(len(STATED) + 2)
"""From none to more than the pool takes: one an expression, and one to the end"""


def world(*names: str) -> list[Changed]:
    devices = [
        device(name, compatibleOnlyWith={"expression": stated})
        for name, stated in zip(names, STATED, strict=False)
    ]
    made = resource_slice("s", devices, driver="d", pool="p", nodeName="n")
    return [Changed(raw["kind"], typed(raw)) for raw in (node("n"), made)]


def store_of(*changes: Changed | Removed) -> Store:
    store = Store(Semantics())
    for change in changes:
        store.apply(change)
    return store


@pytest.mark.parametrize("steps", STEPS)
def test_what_was_begun_goes_on_where_it_was_put_down(steps: int):
    store = store_of(*world("A", "B", "C"))
    left = [store.build_ahead(1) for _ in range(steps)]
    assert left == [n <= len(STATED) for n in range(steps)]
    assert picture(store.snapshot()) == picture(store_of(*world("A", "B", "C")).snapshot())


@pytest.mark.parametrize("steps", STEPS)
def test_of_a_pool_that_changes_meanwhile_nothing_is_kept(steps: int):
    store = store_of(*world("A", "B", "C"))
    for _ in range(steps):
        store.build_ahead(1)
    for change in world("A", "X"):
        store.apply(change)
    store.build_ahead(1)
    assert picture(store.snapshot()) == picture(store_of(*world("A", "X")).snapshot())


@pytest.mark.parametrize("steps", STEPS)
def test_a_pool_that_goes_meanwhile_is_gone(steps: int):
    store = store_of(*world("A", "B", "C"))
    for _ in range(steps):
        store.build_ahead(1)
    gone = Removed("ResourceSlice", ObjectKey("", "s"))
    store.apply(gone)
    store.build_ahead(1)
    assert picture(store.snapshot()) == picture(store_of(*world("A", "B", "C"), gone).snapshot())
