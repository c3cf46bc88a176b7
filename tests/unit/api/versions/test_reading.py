"""Objects of every served version become one shape; what does not fit is refused in one line."""

import copy
from typing import Any

import pytest

from reconciler.api.objects.claims import DeviceClass, ResourceClaim, ResourceClaimTemplate
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.versions.reading import is_ours, read, to_v1, typed
from reconciler.errors import Malformed

GROUP = "resource.k8s.io"
CLAIM: dict[str, Any] = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "c", "namespace": "ns"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
}
SLICE: dict[str, Any] = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "s"},
    "spec": {
        "driver": "d",
        "nodeName": "n",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "0", "attributes": {"a": {"int": 1}}, "capacity": {"m": {"value": "1Gi"}}}],
    },
}
POD: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}


def changed(raw: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of `raw` with the value at a dotted path replaced, or taken out if it is ..."""
    result = copy.deepcopy(raw)
    *way, last = (int(part) if part.isdigit() else part for part in path.split("."))
    inner: Any = result
    for part in way:
        inner = inner[part]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return result


def refusal_of(raw: dict[str, Any]) -> str:
    with pytest.raises(Malformed) as refused:
        read(raw)
    return str(refused.value)


C, S = "ResourceClaim ns/c: spec", "ResourceSlice s: spec"


@pytest.mark.parametrize(
    ("raw", "path", "value", "line"),
    [
        (CLAIM, "metadata", ..., "ResourceClaim (without a name): metadata: is missing"),
        (CLAIM, "metadata", None, "ResourceClaim (without a name): metadata: is missing"),
        (CLAIM, "metadata.name", ..., "ResourceClaim ns/(without a name): metadata.name: is missing"),
        (CLAIM, "metadata.name", "", "ResourceClaim ns/(without a name): metadata.name: must not be empty"),
        (CLAIM, "metadata.name", 5, "ResourceClaim ns/5: metadata.name: must be a string, got 5"),
        (CLAIM, "metadata.labels", [], "ResourceClaim ns/c: metadata.labels: must be an object"),
        (CLAIM, "spec", "x", f"{C}: must be an object, got 'x'"),
        (CLAIM, "spec.devices", "x", f"{C}.devices: must be an object, got 'x'"),
        (CLAIM, "spec.devices.requests", {}, f"{C}.devices.requests: must be a list"),
        (CLAIM, "spec.devices.requests.0.name", ..., f"{C}.devices.requests[0].name: is missing"),
        (
            CLAIM,
            "spec.devices.requests.0.exactly.count",
            "2",
            f"{C}.devices.requests[0].exactly.count: must be an integer, got '2'",
        ),
        (
            CLAIM,
            "spec.devices.requests.0.exactly.count",
            -1,
            f"{C}.devices.requests[0].exactly.count: must be at least 0, got -1",
        ),
        (
            CLAIM,
            "spec.devices.requests.0.exactly.adminAccess",
            "yes",
            f"{C}.devices.requests[0].exactly.adminAccess: must be true or false, got 'yes'",
        ),
        (SLICE, "spec.driver", ..., f"{S}.driver: is missing"),
        (SLICE, "spec.pool", ..., f"{S}.pool: is missing"),
        (SLICE, "spec.pool.resourceSliceCount", 0, f"{S}.pool.resourceSliceCount: must be at least 1, got 0"),
        (
            SLICE,
            "spec.devices.0.capacity.m.value",
            "10Gib",
            f"{S}.devices[0].capacity.m.value: '10Gib' is not a quantity; "
            "write a number with an optional suffix such as 10Gi or 500m",
        ),
        (
            SLICE,
            "spec.devices.0.capacity.m",
            "40Gi",
            f"{S}.devices[0].capacity.m: must be an object, got '40Gi'",
        ),
        (
            SLICE,
            "spec.devices.0.attributes.a",
            "x",
            f"{S}.devices[0].attributes.a: must be an object, got 'x'",
        ),
    ],
)
def test_a_malformed_object_is_refused_by_name_field_and_reason(
    raw: dict[str, Any], path: str, value: Any, line: str
):
    assert refusal_of(changed(raw, path, value)) == line


def test_a_refusal_is_one_line_even_for_a_huge_value():
    line = refusal_of(changed(SLICE, "spec.devices.0.attributes.a.int", "9" * 10_000))
    assert len(line) < 200
    assert "\n" not in line


@pytest.mark.parametrize(
    ("raw", "version", "line"),
    [
        (CLAIM, None, "ResourceClaim ns/c: apiVersion: is missing; write resource.k8s.io/v1"),
        (
            CLAIM,
            f"{GROUP}/v1alpha2",
            "ResourceClaim ns/c: apiVersion: resource.k8s.io/v1alpha2 is not supported; use "
            "resource.k8s.io/v1 or resource.k8s.io/v1beta2 or resource.k8s.io/v1beta1 or "
            "resource.k8s.io/v1alpha3",
        ),
        (
            CLAIM,
            "v1",
            "ResourceClaim ns/c: apiVersion: v1 is not supported; use resource.k8s.io/v1 "
            "or resource.k8s.io/v1beta2 or resource.k8s.io/v1beta1 or resource.k8s.io/v1alpha3",
        ),
        (POD, None, "Pod p: apiVersion: is missing; write v1"),
        (POD, "v2", "Pod p: apiVersion: v2 is not supported; use v1"),
    ],
)
def test_a_version_that_is_not_served_is_refused_with_those_that_are(
    raw: dict[str, Any], version: Any, line: str
):
    assert is_ours({**raw, "apiVersion": version})
    assert refusal_of({**raw, "apiVersion": version}) == line


@pytest.mark.parametrize(
    ("kind", "version", "ours"),
    [
        ("ResourceClaim", "resource.k8s.io/v1", True),
        ("ResourceClaim", "resource.k8s.io/v9", True),
        ("ResourceClaim", "other.example.com/v1", False),
        ("Pod", "v1", True),
        ("Pod", "other.example.com/v1", False),
        ("Deployment", "apps/v1", False),
        (None, "v1", False),
    ],
)
def test_kinds_are_ours_by_name_and_group(kind: str | None, version: str, ours: bool):
    assert is_ours({"kind": kind, "apiVersion": version}) is ours


@pytest.mark.parametrize("version", ["v1", "v1beta2"])
def test_v1beta2_has_the_shape_of_v1(version: str):
    assert read({**SLICE, "apiVersion": f"{GROUP}/{version}"}) == read(SLICE)
    assert read({**CLAIM, "apiVersion": f"{GROUP}/{version}"}) == read(CLAIM)


def test_a_taint_rule_has_versions_of_its_own():
    spec = {"taint": {"key": "k", "effect": "NoSchedule"}}
    rule = {"kind": "DeviceTaintRule", "metadata": {"name": "r"}, "spec": spec}
    for version in ("v1", "v1beta2", "v1alpha3"):
        assert read({**rule, "apiVersion": f"{GROUP}/{version}"}).metadata.name == "r"
    assert "v1beta1 is not supported" in refusal_of({**rule, "apiVersion": f"{GROUP}/v1beta1"})


def test_what_is_not_read_stays_in_the_converted_object():
    """Callers write objects back; fields that only others know must survive."""
    raw = {**CLAIM, "apiVersion": f"{GROUP}/v1beta2", "extra": {"kept": True}}
    assert to_v1(raw) == {**CLAIM, "extra": {"kept": True}}


@pytest.mark.parametrize(
    ("raw", "path", "value", "line"),
    [
        (
            CLAIM,
            "spec",
            {"spec": CLAIM["spec"]},
            "spec.spec: belongs in a ResourceClaimTemplate; in a claim, move it up",
        ),
        (
            CLAIM,
            "spec.devices.requests.0.exactly.selectors",
            [{"cel": {"expression": "true"}}, {"cel": None, "expression": "true"}],
            "spec.devices.requests[0].exactly.selectors[1].expression: "
            "belongs under `cel`; indent it further",
        ),
        (
            CLAIM,
            "spec.devices.requests.0",
            {
                "name": "r",
                "firstAvailable": [{"name": "a"}, {"name": "b", "selectors": [{"expression": "true"}]}],
            },
            "spec.devices.requests[0].firstAvailable[1].selectors[0].expression: "
            "belongs under `cel`; indent it further",
        ),
    ],
)
def test_a_field_at_the_wrong_level_is_refused_with_the_right_one(
    raw: dict[str, Any], path: str, value: Any, line: str
):
    """A server would drop it: the claim would ask for nothing, or its selector be of an unknown kind."""
    assert refusal_of(changed(raw, path, value)) == f"ResourceClaim ns/c: {line}"


@pytest.mark.parametrize(("kind", "path"), [("DeviceClass", "spec"), ("ResourceClaimTemplate", "spec.spec")])
def test_the_selectors_of_classes_and_templates_are_looked_at_too(kind: str, path: str):
    selectors = {"selectors": [{"cel": None, "expression": "true"}]}
    inside = {"spec": {"devices": {"requests": [{"name": "r", "exactly": selectors}]}}}
    raw = {**CLAIM, "kind": kind, "spec": selectors if kind == "DeviceClass" else inside}
    way = "selectors" if kind == "DeviceClass" else "devices.requests[0].exactly.selectors"
    assert f": {path}.{way}[0].expression: belongs under `cel`" in refusal_of(raw)


def test_a_pod_in_the_shape_before_1_31_is_refused():
    spec = {"resourceClaims": [{"name": "a", "resourceClaimName": "b"}, {"name": "c", "source": {}}]}
    line = refusal_of({**POD, "spec": spec})
    assert (
        line == "Pod p: spec.resourceClaims[1].source: was removed in 1.31; move its fields up to the entry"
    )


def test_reading_leaves_its_input_as_it_was():
    raw = {**copy.deepcopy(SLICE), "apiVersion": f"{GROUP}/v1beta1"}
    raw["spec"]["devices"] = [{"name": "0", "basic": {"attributes": {"a": {"int": 1}}}}]
    before = copy.deepcopy(raw)
    read(raw)
    assert raw == before


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (CLAIM, "metadata.uid"),
        (CLAIM, "metadata.labels"),
        (CLAIM, "status"),
        (CLAIM, "spec.devices.constraints"),
        (CLAIM, "spec.devices.requests.0.exactly.allocationMode"),
        (CLAIM, "spec.devices.requests.0.exactly.count"),
        (SLICE, "spec.allNodes"),
        (SLICE, "spec.devices.0.attributes.a.string"),
        (POD, "spec"),
        (POD, "status"),
    ],
)
def test_null_stands_for_absent_wherever_the_api_takes_it(raw: dict[str, Any], path: str):
    assert read(changed(raw, path, None)) == read(raw)


def test_nulls_in_what_belongs_to_a_driver_stay():
    opaque = {"driver": "d", "parameters": {"a": None, "b": [None]}}
    raw = changed(changed(CLAIM, "metadata.uid", None), "spec.devices.config", [{"opaque": opaque}])
    claim = read(raw)
    assert isinstance(claim, ResourceClaim)
    (config,) = claim.spec.devices.config
    assert config.opaque is not None
    assert config.opaque.parameters == {"a": None, "b": [None]}


def test_typed_objects_have_their_class():
    assert isinstance(typed(CLAIM), ResourceClaim)
    assert isinstance(typed(SLICE), ResourceSlice)


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate", "DeviceClass"])
def test_a_spec_may_be_absent_as_in_1_37(kind: str, version: str):
    raw = {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": {"name": "x"}}
    found = read(raw)
    assert found == read({**raw, "spec": {}})
    assert isinstance(found, ResourceClaim | ResourceClaimTemplate | DeviceClass)


@pytest.mark.parametrize(
    "field", [{"deviceClassName": "c"}, {"selectors": [{"cel": {"expression": "true"}}]}]
)
def test_old_selectors_of_taint_rules_are_refused_where_servers_drop_them(field: dict[str, Any]):
    spec = {"deviceSelector": field, "taint": {"key": "k", "effect": "NoSchedule"}}
    raw = {"kind": "DeviceTaintRule", "metadata": {"name": "r"}, "spec": spec}
    read({**raw, "apiVersion": "resource.k8s.io/v1alpha3"})
    for version in ("v1", "v1beta2"):
        with pytest.raises(Malformed, match="without it the rule matches more devices"):
            read({**raw, "apiVersion": f"resource.k8s.io/{version}"})
