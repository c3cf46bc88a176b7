"""Labels and taints of nodes."""

import gc
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.core import Node, Pod, Taint, Toleration
from reconciler.api.objects.selectors import NodeSelector
from reconciler.api.versions.reading import read
from reconciler.state.nodes import labels as module
from reconciler.state.nodes.labels import KnownNode, LabelColumns, taints_of, tolerated
from reconciler.state.nodes.room import demand
from reconciler.state.nodes.table import Nodes
from tests.tools.examples import examples
from tests.tools.small_fleet import pod

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
    {"matchExpressions": st.lists(expressions, max_size=2), "matchFields": st.lists(fields, max_size=1)}
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


GPU = Taint(key="gpu", value="yes", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        pytest.param({}, False, id="an empty one: no key, and another value"),
        pytest.param({"key": "gpu", "value": "yes"}, True, id="equal"),
        pytest.param(
            {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}, True, id="all"
        ),
        pytest.param({"value": "yes"}, True, id="any key, equal value"),
        pytest.param({"key": "gpu", "value": "no"}, False, id="another value"),
        pytest.param({"key": "cpu", "value": "yes"}, False, id="another key"),
        pytest.param({"key": "gpu", "value": "yes", "effect": "NoExecute"}, False, id="another effect"),
        pytest.param({"key": "gpu", "operator": "Exists"}, True, id="exists"),
        pytest.param({"operator": "Exists"}, True, id="tolerates everything"),
        pytest.param({"operator": "Exists", "effect": "NoExecute"}, False, id="everything of another effect"),
        pytest.param({"key": "gpu", "operator": "Gt", "value": "yes"}, False, id="an operator nobody knows"),
    ],
)
def test_what_a_toleration_tolerates(toleration: dict[str, str], expected: bool):
    assert tolerated([GPU], [Toleration.model_validate(toleration)]) is expected


def test_every_taint_must_be_tolerated():
    other = Taint(key="other", effect="NoExecute")
    assert not tolerated([GPU, other], [Toleration(key="gpu", operator="Exists")])
    assert tolerated([GPU, other], [Toleration(key="gpu", operator="Exists"), Toleration(key="other")])
    assert tolerated([], [])


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        pytest.param({}, {}, [], id="a node that says nothing"),
        pytest.param({"unschedulable": True}, {}, ["node.kubernetes.io/unschedulable"], id="cordoned"),
        pytest.param({}, "True", [], id="ready"),
        pytest.param({}, "False", ["node.kubernetes.io/not-ready"], id="not ready"),
        pytest.param({}, "Unknown", ["node.kubernetes.io/unreachable"], id="not heard of"),
        pytest.param(
            {"taints": [{"key": "a", "effect": "NoExecute"}, {"key": "b", "effect": "PreferNoSchedule"}]},
            {},
            ["a"],
            id="a preference keeps nobody out",
        ),
    ],
)
def test_taints_that_keep_pods_out(spec: dict[str, Any], status: Any, expected: list[str]):
    conditions = [{"type": "Ready", "status": status}] if status else []
    raw = {"metadata": {"name": "n"}, "spec": spec, "status": {"conditions": conditions}}
    assert [taint.key for taint in taints_of(KnownNode.of(Node.model_validate(raw)))] == expected


@pytest.mark.parametrize(
    ("operator", "bound", "value", "expected"),
    [
        ("Gt", "3", "5", True),
        ("Gt", "5", "5", False),
        ("Gt", "-5", "-3", True),
        ("Lt", "5", "3", True),
        ("Lt", "5", "5", False),
        ("Lt", "9223372036854775807", "9223372036854775806", True),
        ("Gt", "9223372036854775808", "5", False),
        ("Gt", "03", "5", False),
        ("Gt", "+3", "5", False),
        ("Gt", "3", "", False),
        ("Lt", "5", "x", False),
        ("Gt", "-0", "5", False),
        ("Gt", "0", "5", True),
    ],
)
def test_tolerations_that_compare_numbers(operator: str, bound: str, value: str, expected: bool):
    toleration = Toleration(key="level", operator=operator, value=bound)
    assert tolerated([Taint(key="level", value=value, effect="NoSchedule")], [toleration]) == expected


# -- What a pod takes of a node while its resources change.


def cpu(milli: int) -> dict[str, Any]:
    return {"requests": {"cpu": f"{milli}m"}}


@pytest.mark.parametrize(("asked", "has", "given"), [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
def test_a_pod_as_a_whole_takes_the_most_of_asked_actual_and_allocated(asked: int, has: int, given: int):
    """As its containers do: they differ while the kubelet has not resized it yet."""
    raw = pod("p", resources=cpu(asked))
    raw["status"] = {"resources": cpu(has), "allocatedResources": cpu(given)["requests"]}
    found = read(raw)
    assert isinstance(found, Pod)
    assert demand(found)["cpu"] == 3


def test_a_dropped_fork_is_gone_without_a_collection():
    """Else it would keep all pods that it knows for long."""
    nodes = Nodes()
    gc.disable()
    try:
        fork = nodes.fork()
        gone = weakref.ref(fork)
        del fork
        assert gone() is None
    finally:
        gc.enable()
