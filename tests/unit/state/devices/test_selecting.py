"""The index of node selectors matches like each selector alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.changes import Changed
from reconciler.api.objects.selectors import NodeSelector
from reconciler.errors import Rejected
from reconciler.state.devices.encoding.interner import Interner
from reconciler.state.devices.encoding.vocabulary import SelectorIndex
from reconciler.state.devices.reach import Reach
from reconciler.state.devices.snapshot import Topology
from reconciler.state.store import Store
from tests.tools.builders import Object, device, labelled, node, node_selector, resource_slice, store, typed

KEYS = st.sampled_from(["zone", "kubernetes.io/hostname", "metadata.name"])
VALUES = st.sampled_from(["a", "b", "1", "2"])
LABELS = st.dictionaries(KEYS, VALUES, max_size=3)


def requirement(key, operator, values):
    return {"key": key, "operator": operator, "values": values}


EXPRESSIONS = st.one_of(
    st.builds(requirement, KEYS, st.sampled_from(["In", "NotIn"]), st.lists(VALUES, min_size=1, max_size=3)),
    st.builds(requirement, KEYS, st.sampled_from(["Exists", "DoesNotExist"]), st.just([])),
    st.builds(requirement, KEYS, st.sampled_from(["Gt", "Lt"]), st.lists(VALUES, min_size=1, max_size=1)),
)
FIELDS = st.builds(
    requirement,
    st.just("metadata.name"),
    st.sampled_from(["In", "NotIn", "Near"]),
    st.lists(VALUES, min_size=1, max_size=1),
)
TERMS = st.fixed_dictionaries(
    {"matchExpressions": st.lists(EXPRESSIONS, max_size=2), "matchFields": st.lists(FIELDS, max_size=1)}
)
SELECTORS = st.builds(
    lambda terms: NodeSelector.model_validate({"nodeSelectorTerms": terms}), st.lists(TERMS, max_size=3)
)


def plainly(selector: NodeSelector, name: str, labels: dict[str, str]) -> bool | None:
    try:
        return selector.matches(name, labels)
    except Rejected:
        return None


@given(st.lists(SELECTORS, max_size=6), st.lists(SELECTORS, max_size=3), VALUES, LABELS)
def test_the_index_matches_as_each_selector_does(first, later, name, labels):
    """Also for selectors that are added after the first use."""
    interner: Interner[NodeSelector] = Interner()
    index = SelectorIndex(interner)
    for batch in (first, later):
        for selector in batch:
            interner.code(selector)
        expected = [plainly(selector, name, labels) for selector in interner.values]
        matching = [code for code, answer in enumerate(expected) if answer]
        assert sorted(set(index.codes(name, labels))) == matching
        assert sorted(index.unreadable) == [code for code, answer in enumerate(expected) if answer is None]


def zone(value: str) -> NodeSelector:
    return NodeSelector.model_validate(node_selector(labelled("zone", value)))


def test_a_selector_that_is_added_while_others_are_indexed_is_found(monkeypatch: pytest.MonkeyPatch):
    """The loop encodes slices while a thread joins a fleet."""
    selectors: Interner[NodeSelector] = Interner()
    selectors.code(zone("a"))
    index, check = SelectorIndex(selectors), NodeSelector.check

    def check_while_another_is_added(self: NodeSelector) -> None:
        selectors.code(zone("b"))
        check(self)

    monkeypatch.setattr(NodeSelector, "check", check_while_another_is_added)
    assert index.codes("n", {"zone": "a"}) == [0]
    assert index.codes("n", {"zone": "b"}) == [1]


def test_a_selector_that_is_added_while_a_fleet_is_read_does_not_concern_it(monkeypatch: pytest.MonkeyPatch):
    made = resource_slice("s", [device("A")], nodeSelector=node_selector(labelled("zone", "a")))
    topology = store(node("n", zone="a", rack="r"), made).snapshot().topology
    vocabulary = topology.fleet.vocabulary

    def while_another_is_added(asked: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*args: object) -> object:
            number = len(vocabulary.selectors.values)
            selector = node_selector(labelled("rack", "r", str(number)))
            vocabulary.selectors.code(NodeSelector.model_validate(selector))
            return asked(*args)

        return ask

    monkeypatch.setattr(SelectorIndex, "codes", while_another_is_added(SelectorIndex.codes))
    places, found = topology.selected()
    assert (places.tolist(), found.tolist()) == ([0], [0])
    assert Reach(topology.nodes["n"], vocabulary).matching.all()


def test_who_selects_whom_is_kept_while_neither_selectors_nor_labels_change():
    selected = node_selector(labelled("zone", "a"))

    def made(kind: str) -> Object:
        devices = [device("A", {"kind": kind}, nodeSelector=selected), device("B", nodeName="m")]
        return resource_slice("s", devices, perDeviceNodeSelection=True)

    world = store(node("n", zone="a"), node("m", zone="b"), made("one"))
    first = world.snapshot().topology
    assert pairs_of(first) == {"n": [0]}
    change(world, made("two"))
    second = world.snapshot().topology
    assert second is not first
    assert second._selected is first._selected
    change(world, node("m", zone="a"))
    third = world.snapshot().topology
    assert third._selected is not second._selected
    assert pairs_of(third) == {"m": [0], "n": [0]}
    assert [topology.selected_sums(np.array([7])).tolist() for topology in (first, third)] == [[0, 7], [7, 7]]
    change(world, resource_slice("s", [device("B", nodeName="m")], perDeviceNodeSelection=True))
    assert pairs_of(world.snapshot().topology) == {}


def change(world: Store, raw: Object) -> None:
    world.apply(Changed(raw["kind"], typed(raw)))


def pairs_of(topology: Topology) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for place, code in zip(*(column.tolist() for column in topology.selected()), strict=True):
        found.setdefault(topology.order[place], []).append(code)
    return found
