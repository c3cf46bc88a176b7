"""Objects decoded from the bytes of a server are those read from plain JSON, or are refused alike."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perf.fleets.objects import node
from perf.fleets.served import served
from reconciler.api.objects.changes import Refused
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.versions import reading
from reconciler.api.versions.extensions import ANNOTATION
from reconciler.api.versions.reading import DEEPEST, LONGEST_OBJECT, decode, read, trimmed
from reconciler.errors import Malformed
from reconciler.state.devices.encoding.parts import Packed
from tests.tools.builders import DRA, Object, amount, counter_slice, device, resource_slice, version
from tests.tools.disturbing import disturbed

TERMS = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}

SLICES = [
    resource_slice("s", nodeName="n"),
    resource_slice(
        "s",
        [
            device("a", {"model": "x", "index": 1, "fast": True, "v": version("1.2.3"), "d/e": ["p", "q"]}),
            device(
                "b", {"model": "x"}, {"mem": "1Gi", "cores": amount("8", default="1")}, {"gpu-0": {"m": 3}}
            ),
            device("ü", taints=[{"key": "k", "effect": "NoSchedule"}], allowMultipleAllocations=True),
            device("c", bindsToNode=True, bindingConditions=["x"], bindingFailureConditions=["y"]),
        ],
        allNodes=True,
        skipNodeOperations=["Prepare"],
    ),
    resource_slice(
        "s",
        [device("a", nodeName="n"), device("b", nodeSelector=TERMS), device("c", allNodes=True)],
        perDeviceNodeSelection=True,
    ),
    resource_slice("s", nodeSelector=TERMS),
    counter_slice("s", {"gpu-0": {"m": 40}}),
]


SPEC: Object = {
    "devices": {
        "requests": [
            {"name": "a", "exactly": {"deviceClassName": "c", "count": 2}},
            {"name": "b", "firstAvailable": [{"name": "x", "deviceClassName": "d"}]},
        ],
        "config": [{"opaque": {"driver": "d", "parameters": {"deep": [None, {"x": None}]}}}],
    }
}
STATUS: Object = {
    "allocation": {
        "devices": {"results": [{"request": "a", "driver": "d", "pool": "p", "device": "e"}], "config": None},
        "allocationTimestamp": "2026-01-01T00:00:00Z",
    },
    "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
}
METADATA: Object = {
    "name": "c",
    "namespace": "n",
    "uid": "u",
    "resourceVersion": "7",
    "labels": {"l": "1"},
    "finalizers": ["f"],
    "ownerReferences": [{"kind": "Pod", "name": "p", "uid": "u", "controller": True}],
    "managedFields": [{"manager": "m"}],
}
CLAIMS: list[Object] = [
    {"metadata": {"name": "c"}, "spec": {}},
    {"metadata": METADATA, "spec": SPEC},
    {"metadata": METADATA, "spec": SPEC, "status": {}},
    {"metadata": METADATA, "spec": SPEC, "status": STATUS},
]

RUNNING: Object = {
    "metadata": {
        "name": "a",
        "namespace": "n",
        "uid": "u",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app": "x"},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "v", "controller": True}
        ],
        "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
    },
    "spec": {
        "nodeName": "node",
        "containers": [
            {
                "name": "main",
                "image": "i",
                "resources": {"requests": {"cpu": "100m"}, "claims": [{"name": "gpu"}]},
                "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"}],
            }
        ],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    },
    "status": {
        "phase": "Running",
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "a-gpu"}],
        "containerStatuses": [
            {"name": "main", "ready": True, "resources": {"requests": {"cpu": "200m"}}, "restartCount": 1}
        ],
    },
}
PODS: list[Object] = [
    RUNNING,
    {
        "metadata": {"name": "b", "finalizers": ["f"], "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"schedulingGates": [{"name": "dra-reconciler.io/allocation"}], "affinity": {}},
        "status": {"nominatedNodeName": "n", "initContainerStatuses": [{"allocatedResources": {"cpu": 1}}]},
    },
    {"metadata": {"name": "c", "labels": None}},
    {"metadata": {"name": "d"}, "spec": {"tolerations": None}, "status": {"containerStatuses": None}},
]
NODES: list[Object] = [
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

SERVED: dict[str, tuple[str, list[Object]]] = {
    "ResourceSlice": (DRA, SLICES),
    "ResourceClaim": (DRA, CLAIMS),
    "Pod": ("v1", PODS),
    "Node": ("v1", NODES),
}
EACH = [(kind, version, raw) for kind, (version, raws) in SERVED.items() for raw in raws]


def plain(kind: str, api_version: str, raw: Object) -> str:
    """What `read` makes of an object; types count, so that 1 is not true."""
    try:
        return repr(read({"kind": kind, "apiVersion": api_version, **raw}))
    except Malformed as exc:
        return str(exc)


def decoded(kind: str, api_version: str, raw: Object) -> ApiObject | Refused:
    return decode(kind, api_version, json.dumps(raw).encode())


def shown(found: ApiObject | Refused) -> str:
    return found.reason if isinstance(found, Refused) else repr(found)


@pytest.mark.parametrize(("kind", "api_version", "raw"), EACH)
def test_objects_are_decoded_as_they_are_read(kind, api_version, raw):
    listed = {key: value for key, value in raw.items() if key not in ("kind", "apiVersion")}
    found = decoded(kind, api_version, listed)
    assert repr(found) == plain(kind, api_version, raw) == repr(decoded(kind, api_version, raw))
    assert found == read({"kind": kind, "apiVersion": api_version, **raw})


FIELDS = [
    "name", "attributes", "capacity", "consumesCounters", "nodeName", "devices", "pool", "driver", "spec",
]  # fmt: skip
FIELDS += ["metadata", "annotations", "counters", "int", "string", "value", "basic", "composite", "includes"]
FIELDS += ["mixins", "deviceMixins", "status", "allocation", "results", "requests", "exactly", "selectors"]
FIELDS += ["expression", "source", "resourceClaims", "containers", "resources", "taints", "conditions", "x"]


@given(st.sampled_from(sorted(SERVED)).flatmap(
    lambda kind: st.tuples(st.just(kind), disturbed(SERVED[kind][1], st.sampled_from(FIELDS)))
))  # fmt: skip
@example(("ResourceSlice", {"metadata": None, "spec": {}}))
@example(("ResourceSlice", {"metadata": {"annotations": 3}, "spec": SLICES[0]["spec"]}))
@example(("ResourceClaim", {"metadata": {"name": "c"}, "spec": {"spec": {}}}))
@example(("ResourceClaim", {"metadata": {"name": "c"}, "spec": None}))
def test_anything_in_a_field_means_the_same_in_both(case):
    kind, raw = case
    raw.pop("kind", None)
    raw.pop("apiVersion", None)
    api_version = SERVED[kind][0]
    assert shown(decoded(kind, api_version, raw)) == plain(kind, api_version, raw)


OTHER_SHAPES: dict[str, Object] = {
    "a device of the first revision": resource_slice(
        "s", [{"name": "a", "composite": {"attributes": {"x": {"int": 1}}}}]
    ),
    "mixins": resource_slice(
        "s", [device("a", includes=[{"name": "m"}])], mixins={"device": [{"name": "m", "allNodes": True}]}
    ),
    "fields in an annotation": {
        **SLICES[1],
        "metadata": {
            "name": "s",
            "annotations": {ANNOTATION: '{"a": {"compatibleOnlyWith": {"expression": "true"}}}'},
        },
    },
    "fields of an older version": resource_slice("s", [{"name": "a", "basic": {}}]),
    "fields that are spelled otherwise": resource_slice("s", [{"name": "a", "basic": {}}]),
}


@pytest.mark.parametrize("name", OTHER_SHAPES)
def test_other_shapes_are_converted_before(name):
    raw = OTHER_SHAPES[name]
    text = json.dumps(raw).encode()
    if "otherwise" in name:
        text = text.replace(b'"basic"', b'"\\u0062asic"')
    found = decode("ResourceSlice", DRA, text)
    assert shown(found) == plain("ResourceSlice", DRA, raw)
    assert "composite" in name or found


def test_older_versions_are_converted_before():
    old = "resource.k8s.io/v1beta1"
    raw = resource_slice("s", [{"name": "a", "basic": {"attributes": {"x": {"int": 1}}}}])
    del raw["kind"], raw["apiVersion"]
    found = decoded("ResourceSlice", old, raw)
    assert isinstance(found, ResourceSlice)
    assert found.spec.devices[0].attributes["x"] == {"int": 1}
    assert found == decoded("ResourceSlice", DRA, {**raw, "apiVersion": old})


MISPLACED = [
    ("ResourceClaim", {"spec": {"spec": {}}}, "spec.spec: belongs in a ResourceClaimTemplate"),
    (
        "ResourceClaim",
        {"spec": {"devices": {"requests": [{"name": "a", "exactly": {}, "count": 2}]}}},
        "spec.devices.requests[0].count: belongs under `exactly`",
    ),
    (
        "ResourceClaimTemplate",
        {"spec": {"spec": {"devices": {"requests": [{"name": "a", "deviceClassName": "c"}]}}}},
        "spec.spec.devices.requests[0].deviceClassName: belongs under `exactly`",
    ),
    (
        "DeviceClass",
        {"spec": {"selectors": [{"expression": "true"}]}},
        "spec.selectors[0].expression: belongs under `cel`",
    ),
    (
        "Pod",
        {"spec": {"resourceClaims": [{"name": "a", "source": {}}]}},
        "spec.resourceClaims[0].source: was removed in 1.31",
    ),
]


@pytest.mark.parametrize(("kind", "raw", "why"), MISPLACED)
def test_a_misplaced_field_is_refused_with_its_place(kind, raw, why):
    api_version = "v1" if kind == "Pod" else DRA
    found = decoded(kind, api_version, {"metadata": {"name": "o"}, **raw})
    assert isinstance(found, Refused)
    assert why in found.reason
    assert f"{kind} o" in found.reason


def test_fields_have_no_other_names():
    raw = {"metadata": {"name": "s"}, "spec": {**SLICES[0]["spec"], "node_name": "m"}}
    found = decoded("ResourceSlice", DRA, raw)
    assert isinstance(found, ResourceSlice)
    assert found.spec.node_name == "n"


def nested(depth: int) -> bytes:
    return b'{"metadata": {"name": "a", "namespace": "n"}, "spec": {"x": %b}}' % (b"[" * depth + b"]" * depth)


def test_objects_nest_as_deeply_as_we_say():
    assert not isinstance(decode("Pod", "v1", nested(DEEPEST - 2)), Refused)
    for depth in (DEEPEST, 900, 5000, 100_000):
        found = decode("Pod", "v1", nested(depth))
        assert found == Refused("Pod", ObjectKey("n", "a"), f"nests more than {DEEPEST} levels")


def test_what_stands_beside_the_depth_is_kept():
    text = b'{"a": 1, "deep": [[[1]]], "deeper": {"x": [["]"]]}, "z": "]}[{\\""}'
    assert json.loads(trimmed(text, 2)) == {"a": 1, "deep": [""], "deeper": {"x": ""}, "z": ']}[{"'}
    assert trimmed(text, 4) == text


def test_an_object_that_is_too_long_is_refused_alone():
    found = decoded("Pod", "v1", {"metadata": {"name": "a", "annotations": {"x": "y" * LONGEST_OBJECT}}})
    assert isinstance(found, Refused)
    assert found.key == ObjectKey("", "a")
    assert str(LONGEST_OBJECT) in found.reason


TEXTS = [b"", b"{", b"[]", b"3", b"<html>", nested(300)[:-1], b'{"metadata": {"name": "\xff"}, "spec": {}}']


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
@pytest.mark.parametrize("kind", ["Pod", "Node"])
def test_what_is_no_object_is_an_error(kind, text):
    with pytest.raises(ValueError, match=r"."):
        decode(kind, "v1", text)


def test_equal_parts_are_shared():
    """Pods of one template have one spec, machines of one type one status, whatever else differs."""
    nodes: list[Any] = [decoded("Node", "v1", served(node(name), number)) for number, name in enumerate("ab")]
    assert nodes[0].status is nodes[1].status
    assert nodes[0].spec is nodes[1].spec
    later = json.loads(json.dumps(RUNNING))
    later["metadata"]["name"], later["spec"]["serviceAccountName"] = "b", "not read"
    pods: list[Any] = [decoded("Pod", "v1", raw) for raw in (RUNNING, later)]
    assert pods[0].spec is pods[1].spec
    claims: list[Any] = [decoded("ResourceClaim", DRA, raw) for raw in (CLAIMS[1], CLAIMS[3])]
    assert claims[0].spec is claims[1].spec


def test_parts_are_kept_only_as_long_as_an_object_has_them():
    """Each pod of a gang has a spec of its own: what is gone must not stay in memory."""
    before = len(reading._shared)
    pods = [
        decoded("Pod", "v1", {"metadata": {"name": "a"}, "spec": {"nodeName": f"n{number}"}})
        for number in range(9)
    ]
    assert len(reading._shared) == before + 9
    pods.clear()
    assert len(reading._shared) == before


@pytest.mark.parametrize("raw", [*SLICES, *list(OTHER_SHAPES.values())[1:3]])
def test_a_slice_is_packed_and_unpacked(raw):
    of_files = read(raw)
    assert isinstance(of_files, ResourceSlice)
    assert of_files.text is None
    text = of_files.model_dump_json(by_alias=True, exclude_unset=True, exclude_none=True).encode()
    for found in (decoded("ResourceSlice", DRA, raw), ResourceSlice.read(text)):
        assert isinstance(found, ResourceSlice)
        assert found.text is not None
        again = ResourceSlice.read(Packed.of(found.text, b"a sample").text())
        assert again == found
        assert again.text == found.text
        assert again.spec.devices == found.spec.devices
