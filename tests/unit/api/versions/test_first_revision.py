"""The two-GPU DGX A100 of KEP-4815's first revision, exactly as its text has it."""

from collections import Counter
from typing import Any, cast

import pytest

from reconciler.api.objects.claims import DeviceClass, ResourceClaim, ResourceClaimTemplate
from reconciler.api.objects.plan import Granted
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.versions.reading import read, to_v1
from reconciler.errors import Malformed
from tests.tools.allocation_world import World, decide
from tests.tools.builders import claim, device_class, resource_slice, selectors
from tests.tools.checkout import needs
from tests.tools.first_revision import TEXT, Walk, four_partitions, partitions, two_gpus

MIG = device_class(
    "mig.nvidia.com", 'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "mig"'
)
PROFILE = 'device.attributes["gpu.nvidia.com"].profile == "{}"'
ON_GPU_0 = 'device.attributes["gpu.nvidia.com"].parentIndex == 0'
CLAIM: dict[str, Any] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "c", "namespace": "ns", "uid": "u"},
}


def flat() -> dict[str, Any]:
    return dict(to_v1(two_gpus()))


def claim_for(*profiles: str) -> dict[str, Any]:
    """A claim with a request for each profile, all on the first GPU."""
    wanted = [selectors(PROFILE.format(profile), ON_GPU_0) for profile in profiles]
    exactly = [{"deviceClassName": "mig.nvidia.com", "selectors": chosen} for chosen in wanted]
    requests = [{"name": f"r{number}", "exactly": one} for number, one in enumerate(exactly)]
    return {**CLAIM, "spec": {"devices": {"requests": requests}}}


def devices_for(claim: dict[str, Any]) -> list[str] | None:
    outcome = decide(World([flat()], [claim], classes=[MIG]))
    if not isinstance(outcome, Granted):
        return None
    return [result.device for plan in outcome.plans for result in plan.allocation.devices.results]


@needs(TEXT)
def test_the_claim_of_the_text_gets_the_layout_that_the_text_draws():
    warnings: list[str] = []
    claim = {**to_v1(four_partitions(), warnings)}
    claim["metadata"] = {**claim["metadata"], "namespace": "ns", "uid": "u"}
    (warning,) = warnings
    assert warning.startswith("ResourceClaim mig-devices: spec.spec: belongs in a ResourceClaimTemplate")
    names = ("1g.5gb-0", "1g.5gb-1", "2g.10gb-2-3", "3g.20gb-4-7")
    assert devices_for(claim) == [f"gpu-0-mig-{name}" for name in names]


@needs(TEXT)
@pytest.mark.parametrize(
    ("profile", "most"),
    [
        ("1g.5gb", 7), ("1g.5gb+me", 1), ("1g.10gb", 4), ("2g.10gb", 3),
        ("3g.20gb", 2), ("4g.20gb", 1), ("7g.40gb", 1),
    ],
)  # fmt: skip
def test_one_gpu_holds_as_many_of_one_profile_as_the_table_says(profile: str, most: int):
    assert devices_for(claim_for(*[profile] * most)) is not None
    assert devices_for(claim_for(*[profile] * (most + 1))) is None


@needs(TEXT)
def test_a_larger_and_a_smaller_half_fit_together():
    assert devices_for(claim_for("4g.20gb", "3g.20gb")) == ["gpu-0-mig-4g.20gb-0-3", "gpu-0-mig-3g.20gb-4-7"]


@needs(TEXT)
def test_what_is_included_is_part_of_the_device_and_later_mixins_win():
    found = read(two_gpus())
    assert isinstance(found, ResourceSlice)
    devices = {device.name: device for device in found.spec.devices}
    assert len(devices) == 52
    small = devices["gpu-1-mig-1g.5gb-me-3"]
    assert small.attributes["profile"]["string"] == "1g.5gb+me"
    assert small.attributes["parentUUID"]["string"] == "GPU-4404041a-04cf-1ccf-9e70-f139a9b1e23c"
    assert {key: str(amount.value) for key, amount in small.capacity.items()} == {
        "copy-engines": "1", "decoders": "1", "encoders": "0",
        "jpeg-engines": "1", "memory": "4864Mi", "multiprocessors": "14",
        "ofa-engines": "1", "memorySlice3": "1",
    }  # fmt: skip


@needs(TEXT)
def test_every_gpu_becomes_one_counter_set():
    found = read(two_gpus())
    assert isinstance(found, ResourceSlice)
    sets = {counters.name: counters.counters for counters in found.spec.shared_counters}
    assert list(sets) == ["gpu-0", "gpu-1"]
    assert str(sets["gpu-0"]["memory"]["value"]) == "40Gi"
    told = {draw.counter_set for device in found.spec.devices for draw in device.consumes_counters}
    assert told == set(sets)


@needs(TEXT)
def test_all_sets_of_one_gpu_that_can_be_had_are_those_of_the_tree():
    """Counted one device after the other in the order of the slice, so that every set is met once."""
    devices = {
        name: part for name, part in partitions(two_gpus()["spec"]).items() if name.startswith("gpu-0")
    }
    names = list(devices)
    by_counters = sorted(sets_by_counters(names))
    by_tree = sorted(sets_of_tree(Walk(devices), names, 0))
    assert by_counters == by_tree
    assert len([chosen for chosen in by_tree if chosen]) == 2319


def sets_of_tree(walk: Walk, names: list[str], start: int) -> list[tuple[str, ...]]:
    found = [tuple(walk.held)]
    for at in range(start, len(names)):
        if walk.possible(names[at]):
            walk.held.append(names[at])
            found += sets_of_tree(walk, names, at + 1)
            walk.held.pop()
    return found


def sets_by_counters(names: list[str]) -> list[tuple[str, ...]]:
    source = read(two_gpus())
    assert isinstance(source, ResourceSlice)
    totals = {
        (counters.name, key): counter["value"].nanos
        for counters in source.spec.shared_counters
        for key, counter in counters.counters.items()
    }
    draws = {
        device.name: Counter(
            {
                (draw.counter_set, key): counter["value"].nanos
                for draw in device.consumes_counters
                for key, counter in draw.counters.items()
            }
        )
        for device in source.spec.devices
    }

    def grow(held: tuple[str, ...], used: Counter[tuple[str, str]], start: int) -> list[tuple[str, ...]]:
        found = [held]
        for at in range(start, len(names)):
            more = used + draws[names[at]]
            if all(amount <= totals[key] for key, amount in more.items()):
                found += grow((*held, names[at]), more, at + 1)
        return found

    return grow((), Counter(), 0)


@needs(TEXT)
def test_a_class_and_a_claim_of_that_time_are_read():
    assert isinstance(read({**MIG, "apiVersion": "resource.k8s.io/v1alpha3"}), DeviceClass)
    assert isinstance(to_v1(four_partitions(), []), dict)
    claim = read({**to_v1(four_partitions(), []), "apiVersion": "resource.k8s.io/v1"})
    assert isinstance(claim, ResourceClaim)


# -- v1beta1 objects read as v1 ones. Rules VER-2 to VER-5.


BETA = "resource.k8s.io/v1beta1"


def slice_with(*devices: Any, version: str = BETA, **spec: Any) -> ResourceSlice:
    return cast("ResourceSlice", read(resource_slice("s", devices, **spec) | {"apiVersion": version}))


def claim_with(*requests: Any, version: str = BETA) -> ResourceClaim:
    return cast("ResourceClaim", read(claim("c", *requests) | {"apiVersion": version}))


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
