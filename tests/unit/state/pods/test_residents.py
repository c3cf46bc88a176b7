"""Pods on nodes, event by event, compared with counting all pods anew."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.selectors import LabelSelector
from reconciler.state.pods.residents import KEPT, Residents
from reconciler.state.pods.terms import PodSet, Port, Scope, anti_affinity_of
from tests.tools.examples import examples

NODES = ("a", "b", "c")
LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["x", "y"]))
SELECTORS = [
    LabelSelector.model_validate(one).parsed
    for one in (
        {},
        {"matchLabels": {"app": "x"}},
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]},
        {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["x", "y"]}]},
    )
]
SETS = [
    PodSet(((Scope(frozenset([namespace])), selector),), terminating)
    for namespace in ("n", "m")
    for selector in SELECTORS
    for terminating in (True, False)
]
TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}


def no_labels(_namespace: str) -> dict[str, str]:
    return {}


def pod(name: str, namespace: str = "n", *, ends: bool = False, apart: bool = False, **rest: Any) -> Pod:
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, **rest}
    if ends:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    ports = [{"containerPort": 1, "hostPort": 80}]
    spec = {"containers": [{"name": "c", "ports": ports}], **({"affinity": APART} if apart else {})}
    return Pod.model_validate({"metadata": metadata, "spec": spec})


@st.composite
def events(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    one = st.one_of(
        st.tuples(
            st.just("pod"),
            st.sampled_from("pqrs"),
            st.sampled_from(["n", "m"]),
            LABELS,
            st.booleans(),
            st.booleans(),
            st.sampled_from(["", *NODES]),
        ),
        st.tuples(st.just("node"), st.sampled_from(NODES)),
        st.tuples(st.just("no node"), st.sampled_from(NODES)),
        st.tuples(st.just("ask"), st.sampled_from(SETS)),
    )
    return draw(st.lists(one, max_size=25))


@examples(200)
@given(events())
def test_columns_are_what_counting_all_pods_gives(history: list[tuple[Any, ...]]):
    rows = dict[str, int]()
    residents = Residents(rows)
    there: dict[ObjectKey, tuple[Pod, str]] = {}
    for number, node in enumerate(NODES):
        rows[node] = number
        residents.put_node(number, node)
    for event in history:
        match event:
            case ("pod", name, namespace, labels, ends, apart, node):
                found = pod(name, namespace, ends=ends, apart=apart, labels=labels, uid=f"{ends}{apart}")
                residents.place(found.key, found if node else None, node)
                there.pop(found.key, None)
                if node:
                    there[found.key] = found, node
            case ("node", node) if node not in rows:
                rows[node] = NODES.index(node)
                residents.put_node(rows[node], node)
            case ("no node", node) if node in rows:
                residents.drop_node(rows.pop(node), node)
            case ("ask", pods):
                residents.belonging(pods, but=())
    but = tuple(sorted(there))[:1]
    counted = [(one, rows[node]) for key, (one, node) in there.items() if node in rows and key not in but]
    for pods in SETS:
        expected = np.zeros(len(NODES), dtype=np.int64)
        for one, row in counted:
            ends = one.metadata.deletion_timestamp is not None
            if pods.has(one.key.namespace, one.metadata.labels, no_labels) and (pods.terminating or not ends):
                expected[row] += 1
        assert residents.belonging(pods, but=but).tolist() == expected.tolist()
    using = residents.using(Port("TCP", 80, ""), but=but).tolist()
    assert using == [sum(row == at for _, row in counted) for at in range(len(NODES))]
    for namespace in ("n", "m"):
        (term,) = anti_affinity_of(pod("t", namespace, apart=True))
        expected_terms = [
            sum(term in anti_affinity_of(one) for one, row in counted if row == at)
            for at in range(len(NODES))
        ]
        assert residents.having(term, but=but).tolist() == expected_terms


def test_only_sets_that_were_asked_about_recently_are_kept():
    residents = Residents({"a": 0})
    residents.put_node(0, "a")
    asked = [
        PodSet(((Scope(frozenset(["n"])), SELECTORS[1].with_labels({"k": str(n)})),), terminating=True)
        for n in range(KEPT + 1)
    ]
    for pods in asked:
        residents.belonging(pods, but=())
    first = pod("p", labels={"app": "x", "k": "0"})
    last = pod("q", labels={"app": "x", "k": str(KEPT)})
    assert not residents.place(first.key, first, "a").counted
    assert residents.place(last.key, last, "a").counted
    assert residents.belonging(asked[0], but=()).tolist() == [1]


def test_terms_count_while_a_pod_has_them():
    residents = Residents({"a": 0})
    residents.put_node(0, "a")
    one = pod("p", apart=True)
    other = pod("q", labels={"app": "x"})
    assert residents.against(other) == []
    residents.place(one.key, one, "a")
    assert residents.against(other) == list(anti_affinity_of(one))
    assert residents.against(pod("q", "m", labels={"app": "x"})) == []
    assert residents.place(one.key, None).freed
    assert residents.against(other) == []


def test_nominated_pods_of_equal_or_higher_priority():
    residents = Residents({})

    def nominated(name: str, priority: int, node: str) -> Pod:
        raw = {"metadata": {"name": name}, "spec": {"priority": priority}}
        return Pod.model_validate({**raw, "status": {"nominatedNodeName": node}})

    low, high = nominated("low", 1, "a"), nominated("high", 5, "b")
    assert residents.nominate(low.key, low)
    assert residents.nominate(high.key, high)
    assert not residents.nominate(high.key, high)
    assert residents.nominated(nominated("p", 1, "")) == {"a": [low], "b": [high]}
    assert residents.nominated(nominated("p", 2, "")) == {"b": [high]}
    assert residents.nominated(high) == {}
    assert residents.nominate(low.key, None)
    assert residents.nominated(nominated("p", 0, "")) == {"b": [high]}
