"""The index of node selectors matches like each selector alone."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.node_selector import NodeSelector
from reconciler.errors import Rejected
from reconciler.state.devices.encoding.interner import Interner
from reconciler.state.devices.pools.selecting import SelectorIndex

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
