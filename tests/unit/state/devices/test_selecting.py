"""The index of node selectors matches like each selector alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.node_selector import NodeSelector
from reconciler.errors import Rejected
from reconciler.state.devices.encoding.interner import Interner
from reconciler.state.devices.pools.reach import Reach
from reconciler.state.devices.pools.selecting import SelectorIndex
from tests.tools.builders import device, labelled, node, node_selector, resource_slice, store

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
    vocabulary, codes = topology.fleet.vocabulary, SelectorIndex.codes

    def codes_while_another_is_added(self: SelectorIndex, name: str, labels: dict[str, str]) -> list[int]:
        number = len(vocabulary.selectors.values)
        selector = node_selector(labelled("rack", "r", str(number)))
        vocabulary.selectors.code(NodeSelector.model_validate(selector))
        return codes(self, name, labels)

    monkeypatch.setattr(SelectorIndex, "codes", codes_while_another_is_added)
    places, found = topology.selected()
    assert (places.tolist(), found.tolist()) == ([0], [0])
    assert Reach(topology.nodes["n"], vocabulary).matching.all()
