"""Slices that change in place: the fleet after each change means the same as one built from all slices."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.changes import Changed
from reconciler.api.objects.semantics import Semantics
from reconciler.cel.program import compile_selector
from reconciler.state.store import Store
from tests.tools.builders import (
    Object,
    counter_slice,
    device,
    held,
    hold,
    labelled,
    node,
    node_selector,
    resource_slice,
    taint,
    taint_rule,
    typed,
)
from tests.tools.examples import examples
from tests.tools.store_picture import EXPRESSIONS, picture

SHARED: Object = {"allowMultipleAllocations": True}
FIELDS: list[Object] = [
    {},
    SHARED,
    {"taints": [taint("t1")]},
    {"bindsToNode": True},
    {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]},
]
ATTRIBUTES: list[dict[str, Any]] = [{}, {"model": "x"}, {"model": "y"}, {"model": 1, "e/model": "x"}]
PLACES: list[Object] = [
    {"nodeName": "n"},
    {"nodeName": "m"},
    {"allNodes": True},
    {"nodeSelector": node_selector(labelled("zone", "a"))},
]

DEVICES = st.builds(
    lambda attributes, capacity, draws, fields: (attributes, capacity, draws, fields),
    st.sampled_from(ATTRIBUTES),
    st.sampled_from([{}, {"mem": "4Gi"}, {"mem": "1Gi"}]),
    st.sampled_from([{}, {"g": {"m": 20}}, {"g": {"m": 40}}]),
    st.sampled_from(FIELDS),
)
CHANGES = st.lists(
    st.tuples(st.sampled_from([0, 1, 2]), st.sampled_from([0, 1, 2]), DEVICES, st.sampled_from(PLACES)),
    min_size=1,
    max_size=8,
)
"""Number of a slice, of its device, and what this becomes"""

NAMES = ("s-1", "s-2", "u")


def world() -> list[Object]:
    """Two slices of a pool with counters, and a pool without; three devices each."""
    sample = device("A", {"model": "x", "e/model": "y"}, {"mem": "4Gi"}, {"g": {"m": 20}}, nodeName="n")
    plain = device("A", {"model": "x"}, {"mem": "4Gi"})
    return [
        resource_slice(
            "s-1",
            [deepcopy(sample) | {"name": f"a{number}"} for number in range(3)],
            slices=3,
            perDeviceNodeSelection=True,
        ),
        resource_slice(
            "s-2",
            [deepcopy(sample) | {"name": f"b{number}"} for number in range(3)],
            slices=3,
            perDeviceNodeSelection=True,
        ),
        resource_slice(
            "u", [deepcopy(plain) | {"name": f"c{number}"} for number in range(3)], pool="q", allNodes=True
        ),
    ]


OTHERS = [
    node("n", zone="a"),
    node("m", zone="b"),
    counter_slice("t", {"g": {"m": 100}}, slices=3, perDeviceNodeSelection=True),
    taint_rule("r", {"driver": "d", "device": "b1"}, taint("t2")),
    held("c", hold("a0"), hold("b0"), hold("c0", pool="q", shareID="s", consumedCapacity={"mem": "1Gi"})),
]


def put(store: Store, raw: Object) -> None:
    store.apply(Changed(raw["kind"], typed(raw)))


def store_of(slices: list[Object], rules: Semantics) -> Store:
    store = Store(rules)
    for raw in [*OTHERS, *slices]:
        put(store, raw)
    return store


def changed(slices: list[Object], at: int, number: int, content: Any, place: Object) -> Object:
    """The slice with another device of the same name. It is new, not the old one changed."""
    raw = slices[at] = deepcopy(slices[at])
    name = raw["spec"]["devices"][number]["name"]
    attributes, capacity, draws, fields = content
    own = place if raw["spec"].get("perDeviceNodeSelection") else {}
    draws = draws if raw["spec"].get("perDeviceNodeSelection") else {}
    raw["spec"]["devices"][number] = device(name, attributes, capacity, draws, **fields, **own)
    return raw


@examples(40)
@given(st.sampled_from([Semantics(), Semantics("1.36")]), CHANGES, st.lists(st.booleans(), max_size=8))
def test_any_changes_in_place_equal_a_store_with_the_final_slices(
    rules: Semantics, changes: list[Any], looked: list[bool]
):
    """Held devices stay as they are, since what they drew before a change stays charged (CTR-3)."""
    slices = world()
    store = store_of(slices, rules)
    kept = [(store.snapshot(), deepcopy(picture(store.snapshot())))]
    for (at, number, content, place), look in zip(
        changes, looked + [True] * (len(changes) - len(looked)), strict=False
    ):
        is_held = number == 0 and at < 2
        becomes = (*content[:2], {"g": {"m": 20}}, {}) if is_held else content
        put(store, changed(slices, at, number, becomes, place))
        if look:
            seen = store.snapshot()
            shown = picture(seen)
            assert shown == picture(store_of(slices, rules).snapshot())
            kept.append((seen, deepcopy(shown)))
    assert picture(store.snapshot()) == picture(store_of(slices, rules).snapshot())
    for seen, then in kept:
        assert picture(seen) == then, "a snapshot changed after it was taken"


def test_only_the_columns_that_differ_are_new():
    slices = world()
    store = store_of(slices, Semantics())
    before = store.snapshot()
    put(
        store,
        changed(
            slices, 0, 1, ({"model": "z", "e/model": "y"}, {"mem": "4Gi"}, {"g": {"m": 20}}, {}), PLACES[0]
        ),
    )
    now = store.snapshot()
    earlier = before.fleet.cel.attributes
    same = {name: column.codes is earlier[name].codes for name, column in now.fleet.cel.attributes.items()}
    assert same == {("d", "model"): False, ("e", "model"): True}
    assert all(now.fleet.codes[name] is codes for name, codes in before.fleet.codes.items())
    assert now.topology.near is before.topology.near
    assert now.topology.ordered is before.topology.ordered
    assert now.occupancy.held.base is before.occupancy.held.base


def test_a_kept_snapshot_stays_as_it_is_although_a_later_one_with_its_columns_is_gone():
    store = store_of(world(), Semantics())
    kept = store.snapshot()
    then = deepcopy(picture(kept))
    put(store, changed(world(), 0, 1, ({"model": "z"}, {"mem": "4Gi"}, {"g": {"m": 20}}, {}), PLACES[0]))
    store.snapshot()
    for name in ("a1", "a2"):
        put(store, held(name, hold(name)))
        store.snapshot()
    assert picture(kept) == then


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_selector_keeps_its_answers_if_no_column_that_it_reads_changes(expression: str):
    slices = world()
    store = store_of(slices, Semantics())
    selector = compile_selector(expression)
    before = selector.masks(store.snapshot().fleet.cel)
    put(
        store,
        changed(
            slices, 0, 1, ({"model": "x", "e/model": "z"}, {"mem": "4Gi"}, {"g": {"m": 20}}, {}), PLACES[0]
        ),
    )
    assert selector.masks(store.snapshot().fleet.cel) is before


def test_a_pool_that_moves_to_another_node_is_found_there():
    raw = resource_slice("p", [device("A")], pool="p", nodeName="n")
    store = store_of([raw], Semantics())
    assert len(store.snapshot().topology.view("n").rows) == 1
    put(store, resource_slice("p", [device("A")], pool="p", nodeName="m"))
    now = store.snapshot().topology
    assert [len(now.view(name).rows) for name in ("n", "m")] == [0, 1]
