"""Taints of nodes, with those that the control plane will add, and tolerations."""

from typing import Any

import pytest

from reconciler.api.objects.core import Node, Taint, Toleration
from reconciler.state.nodes.labels import taints_of, tolerated

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
    assert [taint.key for taint in taints_of(Node.model_validate(raw))] == expected


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
