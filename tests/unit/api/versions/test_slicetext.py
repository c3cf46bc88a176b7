"""Slices read from their text are those that the careful way reads, or are left to it."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.model import fields_of
from reconciler.api.objects.slices import Device, ResourceSlice, ResourceSliceSpec
from reconciler.api.versions import slice_text
from reconciler.api.versions.extensions import ANNOTATION
from reconciler.api.versions.reading import read
from reconciler.api.versions.slice_text import read_slice
from reconciler.errors import Malformed
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


def carefully(raw: Object) -> str:
    """What `read` makes of an object; types count, so that 1 is not true."""
    try:
        return repr(read({"kind": "ResourceSlice", "apiVersion": DRA, **raw}))
    except Malformed:
        return "refused"


def quickly(raw: Object) -> ApiObject | None:
    return read_slice(json.dumps(raw).encode(), DRA)


@pytest.mark.parametrize("raw", SLICES, ids=range(len(SLICES)))
def test_slices_as_a_server_sends_them_are_read_from_their_text(raw):
    listed = {key: value for key, value in raw.items() if key not in ("kind", "apiVersion")}
    assert quickly(raw) == quickly(listed) == read(raw)
    assert repr(quickly(raw)) == carefully(raw)


def test_metadata_that_nobody_needs_is_not_read():
    managed = [{"manager": "driver", "fieldsV1": {"f:spec": {"f:devices": {}}}}]
    metadata = {"name": "s", "uid": "u", "resourceVersion": "7", "labels": None, "generation": 2}
    raw = {**SLICES[1], "metadata": {**metadata, "managedFields": managed}}
    assert repr(quickly(raw)) == carefully(raw)
    assert quickly(raw) == quickly({**raw, "metadata": metadata})


@pytest.mark.parametrize("metadata", [None, [], "s", {"name": 1}, {"managedFields": []}])
def test_metadata_of_other_types_is_left_to_the_careful_way(metadata):
    assert quickly({**SLICES[1], "metadata": metadata}) is None


def test_every_field_of_the_models_is_cut_out():
    assert set(fields_of(Device)) <= set(slice_text._DeviceText.__struct_fields__)
    assert set(fields_of(ResourceSliceSpec)) <= set(slice_text._SpecText.__struct_fields__)


def test_what_is_spelled_alike_is_shared():
    raw = SLICES[1]
    first, second = quickly(raw), quickly({**raw, "metadata": {"name": "t"}})
    assert isinstance(first, ResourceSlice)
    assert isinstance(second, ResourceSlice)
    for one, other in zip(first.spec.devices, second.spec.devices, strict=True):
        assert one.capacity is other.capacity
        assert one.consumes_counters is other.consumes_counters
        assert all(value is other.attributes[key] for key, value in one.attributes.items())


ODD: dict[str, Object] = {
    "an older version": {**SLICES[0], "apiVersion": "resource.k8s.io/v1beta1"},
    "another kind": {**SLICES[0], "kind": "Node"},
    "a device of an older shape": resource_slice("s", [{"name": "a", "basic": {}}]),
    "a device of the first revision": resource_slice("s", [{"name": "a", "composite": {}}]),
    "a device that includes": resource_slice("s", [device("a", includes=[{"name": "m"}])]),
    "a draw that includes": resource_slice("s", [device("a", consumesCounters=[{"includes": []}])]),
    "a counter set that includes": resource_slice("s", sharedCounters=[{"name": "a", "includes": []}]),
    "mixins": resource_slice("s", mixins={}),
    "mixins of the first revision": resource_slice("s", deviceMixins=[]),
    "fields in an annotation": {
        **SLICES[0],
        "metadata": {"name": "s", "annotations": {ANNOTATION: '{"a": {}}'}},
    },
}


@pytest.mark.parametrize("raw", ODD.values(), ids=ODD)
def test_other_shapes_are_left_to_the_careful_way(raw):
    assert quickly(raw) is None


TEXTS = [
    b"",
    b"{",
    b"[]",
    b'{"metadata": {"name": "s"}, "spec": {"devices": [{"name": "\\ud800"}]}}',
    json.dumps({**SLICES[0], "status": "?"}).encode().replace(b"?", b"\xff"),
    json.dumps({**SLICES[0], "status": "?"}).encode().replace(b'"?"', b"[" * 9000 + b"]" * 9000),
]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_what_is_no_json_is_left_to_the_careful_way(text):
    assert read_slice(text, DRA) is None


def test_an_older_version_of_a_listing_is_left_to_the_careful_way():
    assert read_slice(json.dumps({"spec": SLICES[0]["spec"]}).encode(), "resource.k8s.io/v1beta1") is None


FIELDS = ["name", "attributes", "capacity", "consumesCounters", "nodeName", "allNodes", "devices", "pool"]
FIELDS += ["driver", "spec", "metadata", "kind", "apiVersion", "annotations", "counters", "int", "string"]
FIELDS += ["value", "basic", "composite", "includes", "mixins", "deviceMixins", "x"]
KEYS = st.sampled_from(FIELDS)


@given(disturbed(SLICES, KEYS))
@example({"metadata": None, "spec": {}})
@example({"metadata": {"annotations": 3}, "spec": SLICES[0]["spec"]})
def test_what_is_read_from_text_is_what_the_careful_way_reads(raw):
    found = quickly(raw)
    if found is not None:
        assert repr(found) == carefully(raw)
