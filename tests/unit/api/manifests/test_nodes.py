"""Nodes that are described, named, or assumed."""

from typing import Any

import pytest

from reconciler.api.manifests.inferred_nodes import ASSUMED, HOSTNAME, infer_nodes
from reconciler.api.objects.core import Node
from reconciler.api.objects.meta import ObjectMeta
from reconciler.api.objects.slices import ResourceSlice


def node(name: str, **labels: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels=labels))


def slice_(devices: list[dict[str, Any]] | None = None, **spec: Any) -> ResourceSlice:
    pool = {"name": "p", "resourceSliceCount": 1}
    whole = {"driver": "d", "pool": pool, "devices": devices or [], **spec}
    return ResourceSlice.model_validate({"metadata": {"name": "s"}, "spec": whole})


def asks(*requirements: tuple[Any, ...]) -> dict[str, Any]:
    """A selector of one term: (key, operator, values...) each."""
    expressions = [{"key": key, "operator": op, "values": list(values)} for key, op, *values in requirements]
    return {"nodeSelectorTerms": [{"matchExpressions": expressions}]}


def by_selector(*requirements: tuple[Any, ...]) -> ResourceSlice:
    return slice_(nodeSelector=asks(*requirements))


def assumed_labels(*slices: ResourceSlice) -> dict[str, str]:
    found = infer_nodes([], slices).assumed
    assert found is not None
    return {key: value for key, value in found.metadata.labels.items() if key != HOSTNAME}


def test_described_nodes_are_used_as_they_are():
    described = node("n1", zone="a")
    found = infer_nodes([described], [slice_(nodeName="n1"), slice_(allNodes=True)])
    assert found.nodes == (described,)
    assert (found.named, found.assumed, found.unmatched) == ((), None, ())


def test_a_node_that_is_only_named_gets_the_label_every_node_has():
    per_device = slice_([{"name": "0", "nodeName": "n2"}], perDeviceNodeSelection=True)
    found = infer_nodes([], [slice_(nodeName="n1"), per_device, slice_(nodeName="n1")])
    assert found.named == ("n1", "n2")
    assert [n.metadata.labels for n in found.nodes] == [{HOSTNAME: "n1"}, {HOSTNAME: "n2"}]
    assert found.assumed is None


def test_without_any_node_one_is_assumed():
    for slices in ([], [slice_(allNodes=True)]):
        found = infer_nodes([], slices)
        assert [n.key.name for n in found.nodes] == [ASSUMED]
        assert found.assumed is found.nodes[0]


def test_selectors_that_reach_a_node_need_no_assumption():
    found = infer_nodes([node("n1", zone="a")], [by_selector(("zone", "In", "a", "b"))])
    assert (found.assumed, found.unmatched) == (None, ())


def test_a_node_is_assumed_for_selectors_that_reach_none():
    found = infer_nodes([node("n1", zone="a")], [by_selector(("zone", "In", "b"))])
    assert [n.key.name for n in found.nodes] == ["n1", ASSUMED]
    assert found.assumed is not None
    assert found.assumed.metadata.labels == {HOSTNAME: ASSUMED, "zone": "b"}


@pytest.mark.parametrize(
    ("requirements", "labels"),
    [
        ([("zone", "In", "b", "a")], {"zone": "b"}),
        ([("gpu", "Exists")], {"gpu": "true"}),
        ([("cores", "Gt", "63")], {"cores": "64"}),
        ([("cores", "Lt", "0")], {"cores": "-1"}),
        ([("cores", "Gt", "63"), ("cores", "Lt", "66")], {"cores": "64"}),
        ([("zone", "In", "a", "b"), ("zone", "NotIn", "a")], {"zone": "b"}),
        ([("zone", "NotIn", "a")], {}),
        ([("virtual", "DoesNotExist")], {}),
        ([("zone", "In", "a"), ("gpu", "Exists"), ("virtual", "DoesNotExist")], {"zone": "a", "gpu": "true"}),
    ],
)
def test_labels_are_chosen_that_meet_every_requirement(
    requirements: list[tuple[Any, ...]], labels: dict[str, str]
):
    assert assumed_labels(by_selector(*requirements)) == labels


def test_selectors_are_met_together_as_far_as_they_go_the_earlier_first():
    slices = [
        by_selector(("zone", "In", "a")),
        by_selector(("zone", "In", "b")),
        by_selector(("rack", "In", "1"), ("zone", "Exists")),
        by_selector(("virtual", "DoesNotExist")),
        by_selector(("virtual", "Exists")),
    ]
    found = infer_nodes([], slices)
    assert assumed_labels(*slices) == {"zone": "a", "rack": "1"}
    assert [selector.node_selector_terms[0].match_expressions[0].key for selector in found.unmatched] == [
        "zone",
        "virtual",
    ]


@pytest.mark.parametrize(
    "selector",
    [
        asks((HOSTNAME, "In", "worker-7")),
        {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["w"]}]}
            ]
        },
        {"nodeSelectorTerms": []},
        asks(("a", "In", "1"), ("a", "In", "2")),
    ],
)
def test_a_selector_that_no_assumed_node_can_meet_is_reported(selector: dict[str, Any]):
    found = infer_nodes([node("n1")], [slice_(nodeSelector=selector)])
    assert found.assumed is None
    assert len(found.unmatched) == 1


def test_a_later_term_is_used_where_the_first_cannot_be():
    selector = {
        "nodeSelectorTerms": [
            *asks((HOSTNAME, "In", "x"))["nodeSelectorTerms"],
            *asks(("z", "Exists"))["nodeSelectorTerms"],
        ]
    }
    device = slice_([{"name": "0", "nodeSelector": selector}], perDeviceNodeSelection=True)
    assert assumed_labels(device) == {"z": "true"}


@pytest.mark.parametrize("requirement", [("a", "Is", "b"), ("a", "Gt", "b"), ("a", "In")])
@pytest.mark.parametrize("described", [[], [node("n1")]])
def test_a_selector_that_cannot_be_read_is_left_to_the_decision(
    requirement: tuple[Any, ...], described: list[Node]
):
    assert infer_nodes(described, [by_selector(requirement)]).unmatched == ()
