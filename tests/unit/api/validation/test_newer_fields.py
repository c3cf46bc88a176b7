"""Fields that manifests are refused for as by a server, and only where a server keeps them."""

import re
from typing import Any

import pytest

from reconciler.api.manifests import bundle as of_documents
from reconciler.api.manifests.documents import Document, InvalidDocument, Origin
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.semantics import (
    COMPATIBILITY_GROUPS,
    COMPOSITE_GROUPS,
    DERIVED_ATTRIBUTES,
    GROUP_CLAIMS,
    GROUP_PREEMPTION,
    NODE_ALLOCATABLE,
    OPTIONAL_NODE_OPERATIONS,
    Semantics,
    lacking,
    with_gates,
)
from reconciler.cel.refusals import REFUSES
from reconciler.embedded import ApiServer
from reconciler.errors import Rejected
from tests.tools.builders import Object, claim, device, resource_slice


def test_a_derived_attribute_that_is_refused_says_also_that_it_does_not_compile():
    """One that only does not compile is left to the decision, like a selector."""
    wants = {"deviceClassName": "any", "derivedAttributes": [{"name": "d/bus", "expression": "((("}]}
    spec = {"devices": {"requests": [{"name": "r", "exactly": wants}]}}
    raw = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": spec,
    }
    (refused,) = of_documents.bundle([Document(Origin("f"), raw)], REFUSES).refused
    assert refused.problem.field.endswith("derivedAttributes[0].name")
    ((field, reason),) = refused.problem.others
    assert field.endswith("derivedAttributes[0].expression")
    assert "does not compile" in reason
    spec["devices"]["constraints"] = [{"matchAttribute": "d/bus"}]
    assert of_documents.bundle([Document(Origin("f"), raw)], REFUSES).of(ResourceClaim)


BAD_USES = {
    "mapping: Invalid value": {"mapping": {}},
    'capacityMultiplier: Invalid value: "-1": must be positive': {
        "mapping": {"capacityKey": "cpus", "capacityMultiplier": "-1"}
    },
    'capacityKey: Not found: "gpus": name a capacity of the device': {
        "mapping": {"capacityKey": "gpus", "capacityMultiplier": "1"}
    },
    "capacityMultiplier: Required value": {"mapping": {"capacityKey": "cpus"}},
    "exactly one of `capacityKey` or `deviceMultiplier` is required": {
        "mapping": {"capacityKey": "cpus", "capacityMultiplier": "1", "deviceMultiplier": "1"}
    },
    "perPod: Invalid value": {"overhead": {"perPod": "-1"}},
    "at least one of mapping or overhead must be set": {},
}


@pytest.mark.parametrize(("said", "use"), BAD_USES.items(), ids=BAD_USES)
def test_a_use_of_node_resources_that_a_server_refuses_is_refused_here(said: str, use: dict[str, Any]):
    device = {"name": "a", "capacity": {"cpus": {"value": "8"}}, "nodeAllocatableResources": {"cpu": use}}
    spec = {
        "driver": "d",
        "nodeName": "n",
        "pool": {"name": "p", "resourceSliceCount": 1},
        "devices": [device],
    }
    raw = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": spec,
    }
    (refused,) = of_documents.bundle([Document(Origin("f"), raw)]).refused
    assert "ResourceSlice s: spec.devices[0].nodeAllocatableResources[cpu]" in str(refused.problem)
    assert said in str(refused.problem)


def scheduling(kind: str, **spec: Any) -> Object:
    """A valid group with some fields; None removes one."""
    version = "v1beta1" if kind == "PodGroup" else "v1alpha3"
    made = {"apiVersion": f"scheduling.k8s.io/{version}", "kind": kind, "metadata": {"name": "g"}}
    given = {
        "schedulingPolicy": {"basic": {}},
        "workloadRef": {"workloadName": "w", "templateName": "t"},
        **spec,
    }
    return {**made, "spec": {key: value for key, value in given.items() if value is not None}}


def claims_of_group(*names: str) -> list[Object]:
    return [{"name": name, "resourceClaimName": "c"} for name in names]


def drawing(groups: list[str]) -> Object:
    draw = {"counterSet": "g", "counters": {"m": {"value": "1"}}, "compatibilityGroups": groups}
    return {"name": "a", "consumesCounters": [draw]}


NEWER = {
    "skipNodeOperations: Invalid": resource_slice(
        "s", [device("a")], nodeName="n", skipNodeOperations=["NodePrepareResources"]
    ),
    "partitionTypeAttribute: Invalid": resource_slice(
        "s", [device("a")], nodeName="n", partitionTypeAttribute="d/kind"
    ),
    "compatibilityGroups: Too many": resource_slice("s", [drawing(["a", "b", "c"])], nodeName="n"),
    "compatibilityGroups[1]: Duplicate": resource_slice("s", [drawing(["a", "a"])], nodeName="n"),
    "preemptionPolicy: Unsupported": scheduling("PodGroup", preemptionPolicy="Sometimes"),
    "disruptionMode: Invalid": scheduling("CompositePodGroup", disruptionMode={"all": {}, "single": {}}),
    "priority: Invalid": scheduling("PodGroup", priority=2 * 10**9),
    "priorityClassName: Invalid": scheduling("CompositePodGroup", priorityClassName="No name"),
    "workloadRef: expected an object": scheduling("PodGroup", workloadRef=5),
}
ORPHAN = "workloadRef: Required value: must be specified when `parentCompositePodGroupName` is set"
GROUPS = {
    ORPHAN: scheduling("PodGroup", parentCompositePodGroupName="top", workloadRef=None),
    "workloadRef: Required value": scheduling("CompositePodGroup", workloadRef=None),
    "resourceClaims: Too many: 5: must have at most 4 items": scheduling(
        "PodGroup", resourceClaims=claims_of_group(*"abcde")
    ),
    'resourceClaims[1].name: Duplicate value: "a"': scheduling(
        "PodGroup", resourceClaims=claims_of_group("a", "a")
    ),
    "gang.minCount: Invalid value: 0: must be greater than zero": scheduling(
        "PodGroup", schedulingPolicy={"gang": {"minCount": 0}}
    ),
    "gang.minGroupCount: Invalid value: 0: must be greater than zero": scheduling(
        "CompositePodGroup", schedulingPolicy={"gang": {"minGroupCount": 0}}
    ),
    "must specify exactly one of: `basic`, `gang`": scheduling("PodGroup", schedulingPolicy=None),
    "exactly one of: `basic`, `gang`": scheduling(
        "PodGroup", schedulingPolicy={"basic": {}, "gang": {"minCount": 1}}
    ),
    "topology: Too many: 2: must have at most 1 items": scheduling(
        "CompositePodGroup", schedulingConstraints={"topology": [{"key": "rack"}, {"key": "block"}]}
    ),
}


@pytest.mark.parametrize(("said", "raw"), (NEWER | GROUPS).items(), ids=NEWER | GROUPS)
def test_newer_fields_that_a_server_refuses_are_refused_here(said: str, raw: Object):
    (refused,) = of_documents.bundle([Document(Origin("f"), raw)]).refused
    assert f"{raw['kind']} " in str(refused.problem)
    assert said in str(refused.problem)


DROPPED = {
    "skipNodeOperations: Invalid": OPTIONAL_NODE_OPERATIONS,
    "compatibilityGroups: Too many": COMPATIBILITY_GROUPS,
    "compatibilityGroups[1]: Duplicate": COMPATIBILITY_GROUPS,
    "preemptionPolicy: Unsupported": GROUP_PREEMPTION,
    ORPHAN: COMPOSITE_GROUPS,
    "workloadRef: Required value": COMPOSITE_GROUPS,
    "disruptionMode: Invalid": COMPOSITE_GROUPS,
    "resourceClaims: Too many: 5: must have at most 4 items": GROUP_CLAIMS,
    'resourceClaims[1].name: Duplicate value: "a"': GROUP_CLAIMS,
}
"""What a server without the gate drops, or is of a kind that it does not have"""


@pytest.mark.parametrize(("said", "gate"), DROPPED.items(), ids=DROPPED)
def test_a_field_is_refused_only_where_a_server_keeps_it(said: str, gate: str):
    raw = (NEWER | GROUPS)[said]
    assert refused_by(Semantics(), raw)
    assert not refused_by(Semantics(gates=with_gates(f"{gate}=false")), raw)
    # 1.36 has claims of groups.
    assert bool(refused_by(OF_1_36, raw)) == (gate == GROUP_CLAIMS)


def test_a_field_without_a_gate_is_refused_only_by_the_rules_of_a_release_that_has_it():
    assert not refused_by(OF_1_36, NEWER["partitionTypeAttribute: Invalid"])
    assert refused_by(OF_1_36, NEWER["priority: Invalid"])


OF_1_36 = Semantics("1.36", with_gates("", lacking=lacking("1.36")))


def refused_by(rules: Semantics, raw: Object) -> tuple[InvalidDocument, ...]:
    return of_documents.bundle([Document(Origin("f"), raw)], rules=rules).refused


def test_a_derived_attribute_and_a_use_of_node_resources_are_refused_only_where_a_server_keeps_them():
    wants = {"deviceClassName": "any", "derivedAttributes": [{"name": "d/bus", "expression": "'1'"}]}
    raw = claim("c")
    raw["spec"] = {"devices": {"requests": [{"name": "r", "exactly": wants}]}}
    used = resource_slice("s", [{"name": "a", "nodeAllocatableResources": {"cpu": {}}}], nodeName="n")
    for one, gate in ((raw, DERIVED_ATTRIBUTES), (used, NODE_ALLOCATABLE)):
        assert refused_by(Semantics(), one)
        assert not refused_by(Semantics(gates=with_gates(f"{gate}=false")), one)
        assert not refused_by(OF_1_36, one)


@pytest.mark.parametrize(("said", "raw"), GROUPS.items(), ids=GROUPS)
def test_a_server_refuses_the_same_groups(said: str, raw: Object):
    placed = {**raw, "metadata": {**raw["metadata"], "namespace": "default"}}
    with pytest.raises(Rejected, match=re.escape(said)):
        ApiServer().load([placed])
