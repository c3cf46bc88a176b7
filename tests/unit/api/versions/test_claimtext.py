"""Claims read from their text are those that the careful way reads, or are left to it."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.model import fields_of
from reconciler.api.versions import claim_text
from reconciler.api.versions.claim_text import read_claim
from reconciler.api.versions.reading import read
from reconciler.api.versions.text_fields import MAX_CACHED_BYTES
from reconciler.errors import Malformed
from tests.tools.builders import DRA, Object

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
ODD: list[Object] = [
    {"metadata": {"name": ""}, "spec": {}},
    {"metadata": {"name": "c"}, "spec": None},
    {"metadata": {"name": "c"}},
    {"metadata": {"name": "c"}, "spec": {}, "status": None},
    {"metadata": {"name": "c", "labels": {"l": 1}}, "spec": {}},
    {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "a", "deviceClassName": "c"}]}}},
    {"metadata": {"name": "c"}, "spec": {"spec": {}}},
    {"metadata": {"name": "c"}, "spec": {}, "kind": "Pod"},
    {"metadata": {"name": "c"}, "spec": {}, "apiVersion": "resource.k8s.io/v1beta1"},
    {"metadata": {"name": "c"}, "spec": {}, "apiVersion": "resource.k8s.io/v7"},
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def carefully(raw: Object) -> str:
    """What `read` makes of a claim; types count, so that 1 is not true."""
    try:
        return repr(read({"kind": "ResourceClaim", "apiVersion": DRA, **raw}))
    except (Malformed, KeyError):
        return "refused"


def quickly(raw: Object) -> ResourceClaim | None:
    return read_claim(json.dumps(raw).encode(), DRA)


@pytest.mark.parametrize("raw", CLAIMS, ids=range(len(CLAIMS)))
def test_claims_as_a_server_sends_them_are_read_from_their_text(raw):
    found = quickly(raw)
    assert found is not None
    assert repr(found) == carefully(raw)
    assert (
        found.model_fields_set == read({"kind": "ResourceClaim", "apiVersion": DRA, **raw}).model_fields_set
    )


@pytest.mark.parametrize("raw", ODD, ids=range(len(ODD)))
def test_whatever_is_odd_is_left_to_the_careful_way(raw):
    assert quickly(raw) is None


@pytest.mark.parametrize(
    "text", [b'{"metadata": {"name"', b'{"metadata": {"name": "c"}, "spec": {}, "other": "\xff"}']
)
def test_what_is_no_json_is_left_to_the_careful_way(text: bytes):
    assert read_claim(text, DRA) is None


def test_every_field_of_the_model_is_cut_out():
    assert set(fields_of(ResourceClaim)) <= set(claim_text._ClaimText.__struct_fields__)


def test_specs_that_are_spelled_alike_are_one():
    first, second = quickly(CLAIMS[1]), quickly({**CLAIMS[1], "metadata": {"name": "other"}})
    assert first is not None
    assert second is not None
    assert first.spec is second.spec


def test_a_large_spec_is_not_remembered():
    opaque = {"driver": "d", "parameters": "x" * MAX_CACHED_BYTES}
    large = {**CLAIMS[1], "spec": {"devices": {**SPEC["devices"], "config": [{"opaque": opaque}]}}}
    first, second = quickly(large), quickly(large)
    assert first == second
    assert first is not None
    assert second is not None
    assert first.spec is not second.spec


@given(
    part=st.sampled_from(["metadata", "spec", "status"]),
    field=st.sampled_from(["name", "labels", "devices", "allocation", "reservedFor", "spec", "finalizers"]),
    value=JSON,
)
@example(part="metadata", field="name", value="\ud800")
@example(part="status", field="reservedFor", value=None)
def test_a_field_with_anything_in_it_reads_as_in_the_careful_way_or_not_at_all(part, field, value):
    raw = {**CLAIMS[3], part: {**CLAIMS[3][part], field: value}}
    found = quickly(raw)
    if found is not None:
        assert repr(found) == carefully(raw)
