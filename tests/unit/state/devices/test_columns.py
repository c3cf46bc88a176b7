"""Columns of a fleet: those of its slices one after the other, also where a column takes no memory."""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.changes import Changed, Refused
from reconciler.api.objects.meta import DeviceID, PoolID
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import decode
from reconciler.state.devices.encoding import tables, vocabulary
from reconciler.state.devices.encoding.block import FLAGS, split
from reconciler.state.devices.encoding.parts import Header
from reconciler.state.devices.encoding.tables import DeviceColumns, Table, join, width
from reconciler.state.devices.encoding.vocabulary import UNKNOWN, Interner, Name
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.store import Store
from tests.tools.builders import DRA, Object, counter_slice, device, node, resource_slice, snapshot, typed
from tests.tools.store_picture import picture

HEADERS = [
    Header((), ()),
    Header((Name("d", "a"),), (Name("d", "m"),)),
    Header((Name("d", "b"), Name("d", "a")), ()),
]


@st.composite
def parts(draw: st.DrawFn) -> list[Table]:
    """Tables of few values: whole columns are often equal."""
    found = []
    for header in draw(st.lists(st.sampled_from(HEADERS), max_size=6)):
        shape = width(header), draw(st.integers(0, 4))
        random = np.random.default_rng(draw(st.integers(0, 99)))
        codes = random.integers(-1, draw(st.integers(0, 2)), shape, dtype=np.int32)
        found.append(Table(header, codes, random.random((len(FLAGS), shape[1])) < 0.1))
    return found


@given(parts(), st.integers(1, 3))
def test_joined_columns_are_those_of_one_table(found: list[Table], piece: int):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "PIECE", piece)
        columns, whole = DeviceColumns.joined(found), join(found)
    assert columns.header == whole.header
    for mine, expected in zip((*columns.codes, *columns.flags), (*whole.codes, *whole.flags), strict=True):
        assert mine.dtype == expected.dtype
        assert not mine.flags.writeable
        assert mine.tolist() == expected.tolist()


@given(parts())
def test_split_codes_can_be_added_again(found: list[Table]):
    for table in found:
        first, steps = split(table.codes)
        assert (np.frombuffer(first, np.int32)[:, None] + steps).tolist() == table.codes.tolist()


@pytest.mark.parametrize("large", [3, 50, 10**6])
def test_codes_are_the_order_of_first_sight(large: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vocabulary, "LARGE", large)
    known: Interner[object] = Interner()
    plain: dict[object, int] = {}
    for number in [*range(120), *range(60, 180)]:
        name = f"serial-{number}"
        assert known.find(name) == plain.get(name, UNKNOWN)
        assert known.code(name) == plain.setdefault(name, len(plain))
    assert known.values == known.keys == list(plain)
    assert [known.find(name) for name in plain] == list(plain.values())


def test_values_that_compare_equal_have_codes_of_their_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vocabulary, "LARGE", 1)
    known: Interner[object] = Interner()
    values = [1, True, "1"]
    keys = [("int", 1), ("bool", True), ("string", "1")]
    assert [known.code(value, key) for value, key in zip(values, keys, strict=True)] == [0, 1, 2]
    assert [known.find(key) for key in reversed(keys)] == [2, 1, 0]
    assert known.values == values


# -- Slices share encoded parts, and each gets the right values.


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
