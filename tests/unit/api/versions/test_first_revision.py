"""The two-GPU DGX A100 of KEP-4815's first revision, exactly as its text has it."""

from collections import Counter
from typing import Any

import pytest

from reconciler.api.objects.claims import DeviceClass, ResourceClaim
from reconciler.api.objects.plan import Granted
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.versions.reading import read, to_v1
from tests.tools.allocation_world import World, decide
from tests.tools.builders import device_class, selectors
from tests.tools.checkout import needs
from tests.tools.first_revision import TEXT, Walk, four_partitions, partitions, two_gpus

pytestmark = needs(TEXT)

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
    requests = [
        {
            "name": f"r{number}",
            "exactly": {
                "deviceClassName": "mig.nvidia.com",
                "selectors": selectors(PROFILE.format(profile), ON_GPU_0),
            },
        }
        for number, profile in enumerate(profiles)
    ]
    return {**CLAIM, "spec": {"devices": {"requests": requests}}}


def devices_for(claim: dict[str, Any]) -> list[str] | None:
    outcome = decide(World([flat()], [claim], classes=[MIG]))
    if not isinstance(outcome, Granted):
        return None
    return [result.device for plan in outcome.plans for result in plan.allocation.devices.results]


def test_the_claim_of_the_text_gets_the_layout_that_the_text_draws():
    warnings: list[str] = []
    claim = {**to_v1(four_partitions(), warnings)}
    claim["metadata"] = {**claim["metadata"], "namespace": "ns", "uid": "u"}
    (warning,) = warnings
    assert warning.startswith("ResourceClaim mig-devices: spec.spec: belongs in a ResourceClaimTemplate")
    assert devices_for(claim) == [
        "gpu-0-mig-1g.5gb-0",
        "gpu-0-mig-1g.5gb-1",
        "gpu-0-mig-2g.10gb-2-3",
        "gpu-0-mig-3g.20gb-4-7",
    ]


@pytest.mark.parametrize(
    ("profile", "most"),
    [
        ("1g.5gb", 7),
        ("1g.5gb+me", 1),
        ("1g.10gb", 4),
        ("2g.10gb", 3),
        ("3g.20gb", 2),
        ("4g.20gb", 1),
        ("7g.40gb", 1),
    ],
)
def test_one_gpu_holds_as_many_of_one_profile_as_the_table_says(profile: str, most: int):
    assert devices_for(claim_for(*[profile] * most)) is not None
    assert devices_for(claim_for(*[profile] * (most + 1))) is None


def test_a_larger_and_a_smaller_half_fit_together():
    assert devices_for(claim_for("4g.20gb", "3g.20gb")) == ["gpu-0-mig-4g.20gb-0-3", "gpu-0-mig-3g.20gb-4-7"]


def test_what_is_included_is_part_of_the_device_and_later_mixins_win():
    found = read(two_gpus())
    assert isinstance(found, ResourceSlice)
    devices = {device.name: device for device in found.spec.devices}
    assert len(devices) == 52
    small = devices["gpu-1-mig-1g.5gb-me-3"]
    assert small.attributes["profile"]["string"] == "1g.5gb+me"
    assert small.attributes["parentUUID"]["string"] == "GPU-4404041a-04cf-1ccf-9e70-f139a9b1e23c"
    assert {key: str(amount.value) for key, amount in small.capacity.items()} == {
        "copy-engines": "1",
        "decoders": "1",
        "encoders": "0",
        "jpeg-engines": "1",
        "memory": "4864Mi",
        "multiprocessors": "14",
        "ofa-engines": "1",
        "memorySlice3": "1",
    }


def test_every_gpu_becomes_one_counter_set():
    found = read(two_gpus())
    assert isinstance(found, ResourceSlice)
    sets = {counters.name: counters.counters for counters in found.spec.shared_counters}
    assert list(sets) == ["gpu-0", "gpu-1"]
    assert str(sets["gpu-0"]["memory"]["value"]) == "40Gi"
    assert {draw.counter_set for device in found.spec.devices for draw in device.consumes_counters} == set(
        sets
    )


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


def test_a_class_and_a_claim_of_that_time_are_read():
    assert isinstance(read({**MIG, "apiVersion": "resource.k8s.io/v1alpha3"}), DeviceClass)
    assert isinstance(to_v1(four_partitions(), []), dict)
    claim = read({**to_v1(four_partitions(), []), "apiVersion": "resource.k8s.io/v1"})
    assert isinstance(claim, ResourceClaim)
