"""Nodes read from their text are those that the careful way reads, or are left to it."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perf.fleets.objects import node
from perf.fleets.served import served
from reconciler.api.versions.node_text import read_node
from reconciler.api.versions.reading import read
from tests.tools.careful_reading import carefully
from tests.tools.disturbing import disturbed

NODES: list[dict[str, Any]] = [
    served(node("a"), 7),
    {"metadata": {"name": "b", "labels": None, "creationTimestamp": None}, "spec": {}, "status": {}},
    {
        "metadata": {"name": "c", "annotations": {"ü": "\\"}, "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule", "timeAdded": "x"}]},
        "status": {
            "declaredFeatures": ["F"],
            "allocatable": {"cpu": "1500m"},
            "conditions": [{"type": "Ready"}, {"type": "Other", "status": "False"}],
        },
    },
    {"metadata": {"name": "d"}, "spec": {"taints": None}, "status": {"allocatable": None}},
]


@pytest.mark.parametrize("raw", NODES[:3], ids=range(3))
def test_nodes_as_a_server_sends_them_are_read_from_their_text(raw):
    found = read_node(json.dumps(raw).encode(), "v1")
    assert repr(found) == carefully("Node", raw)
    assert found is not None
    assert {"kind": "Node", **found.to_json()} == read({"kind": "Node", "apiVersion": "v1", **raw}).to_json()


def test_nodes_of_one_type_share_what_is_equal():
    first, second = (read_node(json.dumps(served(node(name), 7)).encode(), "v1") for name in "ab")
    assert first is not None
    assert second is not None
    assert first.status is second.status


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b'{"metadata": {"name": ""}}',
        b'{"metadata": {"name": "a", "x": "\xff"}}',
        b'{"metadata": {"name": "a"}, "kind": "Pod"}',
        b'{"metadata": {"name": "a"}, "apiVersion": "v2"}',
        b'{"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "many"}}}',
        b'{"metadata": {"name": "a"}, "x": %b}' % (b"[" * 9000 + b"]" * 9000),
    ],
)
def test_what_is_unusual_is_left_to_the_careful_way(text):
    assert read_node(text, "v1") is None


NAMES = st.sampled_from(
    [
        *(
            "metadata",
            "name",
            "labels",
            "annotations",
            "ownerReferences",
            "generation",
            "uid",
            "spec",
            "taints",
        ),
        *("key", "unschedulable", "status", "allocatable", "cpu", "conditions", "type", "declaredFeatures"),
    ]
)


@given(disturbed(NODES, NAMES))
@example({"metadata": None})
@example({"metadata": {"name": "a", "generation": 1.0}})
@example({"metadata": {"name": "a", "ownerReferences": [{"name": 1}]}})
@example({"metadata": {"name": "a", "ownerReferences": [{"name": "x", "controller": None}]}})
def test_what_is_read_from_text_is_what_the_careful_way_reads(raw):
    found = read_node(json.dumps(raw).encode(), "v1")
    if found is not None:
        assert repr(found) == carefully("Node", raw)
