"""Slices share encoded parts, and each gets the right values."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from reconciler.api.objects.changes import Changed, Refused
from reconciler.api.objects.meta import DeviceID, PoolID
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import decode
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.store import Store
from tests.tools.builders import (
    DRA,
    Object,
    counter_slice,
    device,
    node,
    resource_slice,
    snapshot,
    typed,
)
from tests.tools.store_picture import picture


def from_text(*objects: Object) -> Snapshot:
    """The snapshot of slices as a server sends them."""
    store = Store(Semantics())
    for raw in objects:
        is_slice = raw["kind"] == "ResourceSlice"
        read = decode("ResourceSlice", DRA, json.dumps(raw).encode()) if is_slice else typed(raw)
        assert not isinstance(read, Refused)
        store.apply(Changed(raw["kind"], read))
    return store.snapshot()


def machine(name: str, totals: str = "2", draws: Iterable[Object] = (), **fields: Any) -> list[Object]:
    content = list(draws) or [device("A", draws={"cs": {"c": 1}}), device("B", draws={"cs": {"c": 2}})]
    return [
        node(name),
        counter_slice(f"{name}-c", {"cs": {"c": totals}}, pool=name, nodeName=name, slices=2, **fields),
        resource_slice(f"{name}-d", content, pool=name, nodeName=name, slices=2, **fields),
    ]


def test_equal_unqualified_attributes_of_two_drivers_are_distinct():
    content = [device("A", {"model": "x"}, {"mem": "1Gi"})]
    seen = from_text(
        resource_slice("s", content, driver="d", nodeName="n"),
        resource_slice("t", content, driver="e", nodeName="n"),
    )
    rows = {driver: seen.fleet.rows_of(DeviceID(driver, "p", "A"))[0] for driver in "de"}
    for columns, name in ((seen.fleet.cel.attributes, "model"), (seen.fleet.cel.capacity, "mem")):
        for driver, row in rows.items():
            assert (columns[driver, name].codes >= 0).nonzero()[0].tolist() == [row]


WORLDS: dict[str, list[Object]] = {
    "alike": [*machine("m"), *machine("n")],
    "other totals": [*machine("m"), *machine("n", "1")],
    "another generation": [*machine("m"), *machine("n", generation=2)],
    "other draws": [*machine("m"), *machine("n", draws=[device("A", draws={"cs": {"c": 2}})])],
    "two draws of one device, not one of two": [
        *machine("m", draws=[device("A", draws={"cs": {"c": 1}}), device("B", draws={"cs": {"c": 1}})]),
        *machine("n", draws=[device("A", draws={"cs": {"c": 1}, "cr": {"c": 1}})]),
    ],
    "a counter set that is not there": [
        *machine("m", draws=[device("A", draws={"cr": {"c": 1}})]),
        *machine("n", draws=[device("A", draws={"cr": {"c": 1}})]),
    ],
    "different attributes side by side": [
        node("n"),
        resource_slice(
            "s", [device("A", {"a": 1, "b": 2}), device("B", {"b": 1}), device("C")], nodeName="n"
        ),
        resource_slice("t", [device("A", {"b": 2, "a": 1}, {"mem": "1"})], pool="q", nodeName="n"),
    ],
}


@pytest.mark.parametrize("objects", WORLDS.values(), ids=WORLDS)
def test_slices_of_a_server_give_the_same_snapshot(objects):
    assert picture(from_text(*objects)) == picture(snapshot(*objects))
    for raw in objects:
        assert picture(from_text(*objects, raw)) == picture(from_text(*objects))


def test_identical_machines_share_their_counters():
    pools = from_text(*WORLDS["alike"]).fleet.pools
    assert [pool.id for pool in pools] == [PoolID("d", "m"), PoolID("d", "n")]
    assert pools[0].counters is pools[1].counters


def test_a_problem_names_the_slice_that_has_it():
    seen = from_text(*WORLDS["a counter set that is not there"])
    for name in ("m", "n"):
        (pool,) = seen.topology.view(name).pools
        assert f"slice {name}-d" in pool.problem
