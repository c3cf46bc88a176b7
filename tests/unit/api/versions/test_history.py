"""What was published in versions that are not served any more, and counters beside devices as of 1.33."""

import io
from collections import Counter
from typing import Any

import pytest

from reconciler.api.manifests.bundle import read_bundle
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted
from reconciler.api.versions.reading import read, to_v1
from reconciler.errors import Malformed
from tests.tools.allocation_world import World, decide
from tests.tools.builders import claim, device, device_class, held, hold, request, resource_slice, selectors
from tests.tools.checkout import SHARED, needs

SAMPLES = SHARED / "samples"
GROUP = "resource.k8s.io"

UNREADABLE = {
    "spec.driver: is missing": 3,
    "spec.resourceClassName: was removed": 2,
    "spec.spec.resourceClassName: was removed": 4,
}
"""Slices without what classes find devices by, and claims for a controller"""


@needs(SAMPLES)
def test_every_published_slice_class_and_claim_of_older_versions_is_read():
    kinds = ("ResourceSlice", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate")
    files = [path for path in sorted(SAMPLES.glob("*/history/**/*")) if path.is_file()]
    assert len(files) > 100
    refused: list[str] = []
    read_objects = 0
    for path in files:
        bundle = read_bundle([str(path)], io.BytesIO())
        read_objects += sum(len(bundle.entries.get(kind, {})) for kind in kinds)
        refused += [
            r.problem.field + ": " + r.problem.reason.split(" in Kubernetes 1.32")[0]
            for r in bundle.refused
            if any(f" {k} " in r.problem.subject for k in kinds)
        ]
    assert Counter(refused) == UNREADABLE
    assert read_objects > 100


def old(version: str, capacity: Any) -> dict[str, Any]:
    plain = resource_slice("s", nodeName="n")
    plain["spec"]["devices"] = [{"name": "a", "basic": {"capacity": {"memory": capacity}}}]
    return {**plain, "apiVersion": f"{GROUP}/{version}"}


@pytest.mark.parametrize(
    ("version", "capacity"),
    [
        ("v1alpha3", "40Gi"),
        ("v1alpha3", {"value": "40Gi"}),
        ("v1alpha3", {"quantity": "40Gi"}),
        ("v1beta1", {"value": "40Gi"}),
    ],
)
def test_capacity_is_read_in_the_spelling_of_its_time(version: str, capacity: Any):
    found = to_v1(old(version, capacity))["spec"]["devices"]
    assert found == [{"name": "a", "capacity": {"memory": {"value": "40Gi"}}}]


@pytest.mark.parametrize("capacity", ["40Gi", {"quantity": "40Gi"}])
def test_a_spelling_of_another_time_is_read_from_files_with_a_warning(capacity: Any):
    warnings: list[str] = []
    found = to_v1(old("v1beta1", capacity), warnings)["spec"]["devices"][0]["capacity"]
    assert found == {"memory": {"value": "40Gi"}}
    (warning,) = warnings
    assert warning.endswith("amounts belong under `value` since v1beta1; read as if they were there")


@pytest.mark.parametrize("version", ["v1alpha3", "v1beta1", "v1beta2", "v1"])
def test_a_claim_says_the_same_in_every_version(version: str):
    inline = {"deviceClassName": "any", "count": 2}
    asked = (
        {"name": "r", **inline} if version in ("v1alpha3", "v1beta1") else {"name": "r", "exactly": inline}
    )
    found = read({**claim("c", asked), "apiVersion": f"{GROUP}/{version}"})
    assert isinstance(found, ResourceClaim)
    (read_back,) = found.spec.devices.requests
    assert read_back.exactly is not None
    assert (read_back.exactly.device_class_name, read_back.exactly.count) == ("any", 2)


@pytest.mark.parametrize(
    ("kind", "spec", "warning"),
    [
        ("DeviceClass", {"selectors": [{"cel": "true"}]}, "spec.selectors[0].cel: must be an object"),
        (
            "ResourceClaim",
            claim("x", request(selectors=[{"cel": "true"}]))["spec"],
            "spec.devices.requests[0].exactly.selectors[0].cel: must be an object",
        ),
        (
            "ResourceSlice",
            resource_slice("s", [{"name": "a", "attributes": {"size": 4}}], nodeName="n")["spec"],
            "spec.devices[0].attributes.size: must be an object; read as a typed value",
        ),
    ],
)
def test_what_proposals_shorten_is_read_from_files_with_a_warning(kind: str, spec: Any, warning: str):
    raw = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    warnings: list[str] = []
    read(dict(to_v1(raw, warnings)))
    (found,) = warnings
    assert found.startswith(f"{kind} x: {warning}")


TAINTED = {"taints": [{"key": "k", "effect": "NoSchedule"}]}


@pytest.mark.parametrize(
    "fields", [TAINTED, {"compatibleOnlyWith": {"expression": "false"}}, {"nodeName": "n"}]
)
@pytest.mark.parametrize("version", ["v1alpha3", "v1beta1"])
def test_what_stands_beside_basic_is_not_dropped(fields: dict[str, Any], version: str):
    """A server drops such fields. In files they are read with a warning, unless it is unclear which."""
    beside = {"name": "a", "basic": {"attributes": {"id": {"string": "a"}}}, **fields}
    raw = {**resource_slice("s", [beside], nodeName="n"), "apiVersion": f"{GROUP}/{version}"}
    with pytest.raises(Malformed, match="belongs under `basic`"):
        to_v1(raw)
    warnings: list[str] = []
    (device,) = to_v1(raw, warnings)["spec"]["devices"]
    assert device == {"name": "a", "attributes": {"id": {"string": "a"}}, **fields}
    assert len(warnings) == 1
    raw["spec"]["devices"] = [{"name": "a", "basic": fields, **fields}]
    with pytest.raises(Malformed, match="belongs under `basic`"):
        to_v1(raw, [])


@pytest.mark.parametrize("version", ["v1alpha3", "v1beta1", "v1beta2", "v1"])
@pytest.mark.parametrize("field", ["controller", "resourceClassName", "parametersRef"])
def test_a_claim_for_a_controller_is_refused(field: str, version: str):
    """It would get devices that it does not ask for, or be ready without any."""
    of_claim = {field: "x", "devices": {"requests": []}}
    for kind, spec, where in (
        ("ResourceClaim", of_claim, "spec"),
        ("ResourceClaimTemplate", {"spec": of_claim}, "spec.spec"),
    ):
        raw = {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": {"name": "x"}, "spec": spec}
        for fix in (False, True):
            with pytest.raises(Malformed) as raised:
                to_v1(raw, [] if fix else None)
            assert str(raised.value).startswith(f"{kind} x: {where}.{field}: was removed")


def test_a_request_in_the_shapes_of_two_versions_is_refused():
    asked = {"name": "r", "deviceClassName": "any", "exactly": {"deviceClassName": "any", "count": 2}}
    raw = {**claim("c", asked), "apiVersion": f"{GROUP}/v1beta1"}
    with pytest.raises(Malformed, match=r"requests\[0\].exactly: belongs to v1"):
        to_v1(raw)


@pytest.mark.parametrize("version", ["v1alpha3", "v1beta1", "v1beta2", "v1"])
def test_counters_beside_devices_in_one_slice_limit_these_devices(version: str):
    """As Kubernetes 1.33 and 1.34 had it; since then they are in slices of their own."""
    devices = [
        device("whole", {"id": "whole"}, draws={"gpu": {"memory": 40}}),
        *(device(name, {"id": name}, draws={"gpu": {"memory": 20}}) for name in ("a", "b")),
    ]
    sets = [{"name": "gpu", "counters": {"memory": {"value": "40"}}}]
    raw = resource_slice("s", devices, nodeName="n", sharedCounters=sets)
    if version in ("v1alpha3", "v1beta1"):
        raw["spec"]["devices"] = [{"name": found.pop("name"), "basic": found} for found in devices]
    source = dict(to_v1({**raw, "apiVersion": f"{GROUP}/{version}"}))

    def gives(name: str, *taken: str) -> bool:
        wanted = claim("c", request(selectors=selectors(f'device.attributes["d"].id == "{name}"')))
        holders = [held(f"by-{one}", hold(one)) for one in taken]
        return isinstance(decide(World([source], [wanted], holders, [device_class()])), Granted)

    assert gives("whole")
    assert gives("b", "a")
    assert not gives("whole", "a")
    assert not gives("a", "whole")


def put_right(raw: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    warnings: list[str] = []
    return dict(to_v1(raw, warnings)), warnings


def test_an_object_without_a_name_gets_one_from_its_content():
    raw = resource_slice("s", nodeName="n")
    raw["metadata"] = {}
    made, warnings = put_right(raw)
    assert made["metadata"]["name"].startswith("unnamed-")
    assert warnings == [
        f"ResourceSlice (without a name): metadata.name: is missing; {made['metadata']['name']} is used"
    ]
    assert put_right(raw) == (made, warnings)
    assert put_right({**raw, "spec": {**raw["spec"], "nodeName": "m"}})[0]["metadata"] != made["metadata"]


def test_a_slice_without_a_pool_is_one_of_its_own():
    raw = resource_slice("s", nodeName="n")
    raw["spec"]["pool"] = None
    made, warnings = put_right(raw)
    assert made["spec"]["pool"] == {"name": "n", "generation": 0, "resourceSliceCount": 1}
    assert warnings == ["ResourceSlice s: spec.pool: is missing; read as the only slice of pool n"]


def test_devices_without_basic_are_read_where_it_is_clear_what_is_meant():
    raw = resource_slice(
        "s", [{"name": "a", "capacity": {"m": {"value": "1"}}}, {"capacity": {}}], nodeName="n"
    )
    made, warnings = put_right({**raw, "apiVersion": f"{GROUP}/v1beta1"})
    assert made["spec"]["devices"] == [{"name": "a", "capacity": {"m": {"value": "1"}}}]
    assert warnings == [
        "ResourceSlice s: spec.devices[0]: its fields belong under `basic` in resource.k8s.io/v1beta1; "
        "read as if they were there",
        "ResourceSlice s: spec.devices[1].name: is missing; the device is ignored",
    ]


def test_names_that_no_server_takes_are_read_with_a_warning():
    devices = [device("a.0", {"x-y": 1}, {"copy-engines": "1"}), device("a.1")]
    made, warnings = put_right(resource_slice("s", devices, nodeName="n"))
    assert made["spec"]["devices"] == devices
    assert warnings == [
        "ResourceSlice s: device a.0 and 1 more: invalid name; `dra-reconciler convert` fixes it",
        "ResourceSlice s: attribute x-y: invalid name; `dra-reconciler convert` fixes it",
        "ResourceSlice s: capacity copy-engines: invalid name; `dra-reconciler convert` fixes it",
    ]
