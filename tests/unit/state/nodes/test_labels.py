"""Selectors over columns of labels, compared with the same selectors node by node."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.selectors import NodeSelector
from reconciler.state.nodes import labels as module
from reconciler.state.nodes.labels import LabelColumns
from tests.tools.examples import examples

KEYS, NAMES = ("zone", "size", "gone"), ("n0", "n1", "n2", "n3")
VALUES = st.sampled_from(["", "1", "5", "east", "-3"])
expressions = st.one_of(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(KEYS),
            "operator": st.sampled_from(["In", "NotIn"]),
            "values": st.lists(VALUES, min_size=1, max_size=2),
        }
    ),
    st.fixed_dictionaries(
        {"key": st.sampled_from(KEYS), "operator": st.sampled_from(["Exists", "DoesNotExist"])}
    ),
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(KEYS),
            "operator": st.sampled_from(["Gt", "Lt"]),
            "values": st.sampled_from([["0"], ["3"]]),
        }
    ),
)
fields = st.fixed_dictionaries(
    {
        "key": st.just("metadata.name"),
        "operator": st.sampled_from(["In", "NotIn"]),
        "values": st.lists(st.sampled_from(NAMES), min_size=1, max_size=1),
    }
)
terms = st.fixed_dictionaries(
    {
        "matchExpressions": st.lists(expressions, max_size=2),
        "matchFields": st.lists(fields, max_size=1),
    }
)
selectors = st.builds(
    lambda found: NodeSelector.model_validate({"nodeSelectorTerms": found}), st.lists(terms, max_size=2)
)
LABELS = st.dictionaries(st.sampled_from(KEYS), VALUES)


@examples(60)
@given(st.lists(st.tuples(st.sampled_from(NAMES), st.none() | LABELS), max_size=12), selectors, LABELS)
def test_columns_match_like_single_nodes(
    events: list[tuple[str, dict[str, str] | None]], selector: NodeSelector, wanted: dict[str, str]
):
    rows, labels = dict[str, int](), dict[str, dict[str, str]]()
    columns = LabelColumns(rows)
    spare: list[int] = []
    for name, now in events:
        if now is None:
            if name in rows:
                spare.append(rows.pop(name))
                columns.drop(spare[-1])
                del labels[name]
            continue
        if name not in rows:
            rows[name] = spare.pop() if spare else len(rows) + len(spare)
        columns.put(rows[name], now)
        labels[name] = now
        columns.match(selector)  # builds columns, which have to follow
        columns.have(wanted)
    matched, had = columns.match(selector), columns.have(wanted)
    for name, row in rows.items():
        assert matched[row] == selector.matches(name, labels[name])
        assert had[row] == (wanted.items() <= labels[name].items())


def test_a_label_that_often_changes_does_not_grow_its_column():
    columns = LabelColumns({"n0": 0})
    for beat in range(10 * module.SPARE):
        columns.put(0, {"beat": str(beat)})
        assert columns.have({"beat": str(beat)}).tolist() == [True]
        assert len(columns._column("beat").values) <= module.SPARE + 3
