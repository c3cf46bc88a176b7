"""v1beta1 objects read as v1 ones. Rules VER-2 to VER-5."""

from typing import Any, cast

import pytest

from reconciler.api.objects.claims import ResourceClaim, ResourceClaimTemplate
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.versions.reading import read
from reconciler.errors import Malformed

BETA = "resource.k8s.io/v1beta1"


def slice_with(*devices: Any, version: str = BETA, **spec: Any) -> ResourceSlice:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    raw = {
        "apiVersion": version,
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {"driver": "d", "pool": pool, "devices": list(devices), **spec},
    }
    return cast("ResourceSlice", read(raw))


def claim_with(*requests: Any, version: str = BETA) -> ResourceClaim:
    raw = {
        "apiVersion": version,
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": list(requests)}},
    }
    return cast("ResourceClaim", read(raw))


def test_what_a_device_has_moves_up_from_basic():
    device = {"name": "0", "basic": {"attributes": {"a": {"int": 1}}, "capacity": {"m": {"value": "1Gi"}}}}
    flat = {"name": "0", "attributes": {"a": {"int": 1}}, "capacity": {"m": {"value": "1Gi"}}}
    assert slice_with(device).spec == slice_with(flat, version="resource.k8s.io/v1").spec


def test_a_device_without_basic_is_of_a_later_kind_and_left_out():
    later = {"name": "1", "virtual": {}}
    assert [d.name for d in slice_with({"name": "0", "basic": {}}, later).spec.devices] == ["0"]


@pytest.mark.parametrize("key", ["attributes", "capacity"])
def test_a_device_in_the_shape_of_v1_is_refused_rather_than_emptied(key: str):
    with pytest.raises(Malformed, match=rf"^ResourceSlice s: spec.devices\[0\].{key}: belongs under `basic`"):
        slice_with({"name": "0", key: {}})


@pytest.mark.parametrize(
    "unset", [{"nodeName": ""}, {"allNodes": False}, {"nodeName": "", "allNodes": False}]
)
def test_node_fields_spelled_empty_are_unset(unset: dict[str, Any]):
    spec = slice_with(**unset).spec
    assert spec.node_name is None
    assert spec.all_nodes is None


def test_node_fields_that_are_set_stay():
    assert slice_with(nodeName="n").spec.node_name == "n"
    assert slice_with(allNodes=True).spec.all_nodes is True


@pytest.mark.parametrize(
    "inline",
    [
        {"deviceClassName": "x"},
        {"selectors": [{"cel": {"expression": "true"}}]},
        {"allocationMode": "All"},
        {"count": 2},
        {"adminAccess": False},
        {"tolerations": [{"operator": "Exists"}]},
        {"capacity": {"requests": {"m": "1Gi"}}},
    ],
    ids=lambda inline: next(iter(inline)),
)
def test_any_inline_field_makes_the_request_exact(inline: dict[str, Any]):
    (request,) = claim_with({"name": "r", **inline}).spec.devices.requests
    (same,) = claim_with({"name": "r", "exactly": inline}, version="resource.k8s.io/v1").spec.devices.requests
    assert request == same
    assert request.exactly is not None


@pytest.mark.parametrize(
    "unset", [{}, {"deviceClassName": ""}, {"count": 0}, {"allocationMode": "", "selectors": None}]
)
def test_a_request_with_alternatives_and_no_inline_field_is_not_exact(unset: dict[str, Any]):
    """The version spells unset fields as empty strings and zeros."""
    alternatives = [{"name": "a", "deviceClassName": "x"}]
    (request,) = claim_with({"name": "r", "firstAvailable": alternatives, **unset}).spec.devices.requests
    assert request.exactly is None
    assert [alternative.name for alternative in request.first_available] == ["a"]


def test_templates_are_converted_inside():
    raw = {
        "apiVersion": BETA,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "t"},
        "spec": {
            "metadata": {"labels": {"l": "v"}},
            "spec": {"devices": {"requests": [{"name": "r", "count": 2}]}},
        },
    }
    template = cast("ResourceClaimTemplate", read(raw))
    (request,) = template.spec.spec.devices.requests
    assert request.exactly is not None
    assert request.exactly.count == 2
    assert template.spec.metadata.labels == {"l": "v"}


@pytest.mark.parametrize("version", ["v1", "v1beta2"])
@pytest.mark.parametrize("field", ["deviceClassName", "count"])
def test_a_flat_request_in_a_later_version_is_refused(version: str, field: str):
    """A server would drop the field, and the request would lose its class."""
    with pytest.raises(Malformed, match=rf"requests\[0\].{field}: belongs under `exactly`"):
        claim_with({"name": "r", field: 1}, version=f"resource.k8s.io/{version}")


def test_a_device_with_basic_in_a_later_version_is_refused():
    with pytest.raises(Malformed, match=r"spec.devices\[1\].basic: belongs to v1beta1"):
        slice_with({"name": "0"}, {"name": "1", "basic": {}}, version="resource.k8s.io/v1")


@pytest.mark.parametrize("spec", ["x", [], {"devices": "x"}, {"devices": {"requests": "x"}}, {"devices": 5}])
@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"])
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_misshapen_spec_is_refused_and_never_breaks_the_conversion(kind: str, version: str, spec: Any):
    inner = {"spec": spec} if kind == "ResourceClaimTemplate" else spec
    raw = {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": {"name": "x"}, "spec": inner}
    with pytest.raises(Malformed, match=f"^{kind} x: spec"):
        read(raw)


@pytest.mark.parametrize("device", [None, "x", 5, []])
def test_a_device_that_is_no_object_is_refused(device: Any):
    with pytest.raises(Malformed, match=r"^ResourceSlice s: spec.devices\[0\]: must be an object"):
        slice_with(device)
