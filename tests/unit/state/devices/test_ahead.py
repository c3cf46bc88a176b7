"""Pools that are built ahead of the next snapshot, and change meanwhile."""

import pytest

from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.state.store import Store
from tests.tools.builders import counter_slice, device, held, hold, node, resource_slice, typed
from tests.tools.pool_fitting import ON_N, TWO, left
from tests.tools.store_picture import picture

STATED = ("device.allowMultipleAllocations", "no CEL", 'device.driver == "d"')


def changes(*names: str) -> list[Changed]:
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


@pytest.mark.parametrize("steps", range(3))
def test_a_pool_that_changes_meanwhile_starts_over(steps: int):
    store = store_of(*changes("A", "B", "C"))
    for _ in range(steps):
        store.build_ahead(1)
    for change in changes("A", "X"):
        store.apply(change)
    store.build_ahead(1)
    assert picture(store.snapshot()) == picture(store_of(*changes("A", "X")).snapshot())


@pytest.mark.parametrize("steps", range(3))
def test_a_pool_that_is_deleted_meanwhile_is_dropped(steps: int):
    store = store_of(*changes("A", "B", "C"))
    for _ in range(steps):
        store.build_ahead(1)
    gone = Removed("ResourceSlice", ObjectKey("", "s"))
    store.apply(gone)
    store.build_ahead(1)
    assert picture(store.snapshot()) == picture(store_of(*changes("A", "B", "C"), gone).snapshot())


@pytest.mark.parametrize("steps", range(3))
def test_a_pool_that_is_as_it_was_is_built_for_what_was_drawn_meanwhile(steps: int):
    """A held device keeps its draw of 20 when its slice goes, which is no whole unit of what remains."""
    first, second, claim = (
        Changed(raw["kind"], typed(raw))
        for raw in (
            counter_slice("t", {"g": {"m": 40}}, **TWO, **ON_N),
            resource_slice("s", [device("a", draws={"g": {"m": 20}})], **TWO, **ON_N),
            held("c", hold("a")),
        )
    )
    store = store_of(first)
    for _ in range(steps):
        store.build_ahead(1)
    for change in (second, claim, Removed("ResourceSlice", ObjectKey("", "s"))):
        store.apply(change)
    assert left(store.snapshot()) == {"d/p/m": 20}
