"""Mixins in the shape of KEP-5234, and the two GPUs of the proposal that came before it."""

from typing import Any

import pytest
import yaml

from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.versions.reading import read, to_v1
from reconciler.errors import Malformed
from tests.tools.builders import device, resource_slice
from tests.tools.checkout import SHARED, needs

DGX = SHARED / "samples" / "kubernetes_enhancements" / "dgxa100"

MIXINS: dict[str, Any] = {
    "device": [
        {"name": "gpu", "attributes": {"model": {"string": "A"}, "type": {"string": "gpu"}}},
        {"name": "big", "attributes": {"model": {"string": "B"}}, "capacity": {"memory": {"value": "40Gi"}}},
    ],
    "deviceCounterConsumption": [
        {"name": "whole", "counters": {"memory": {"value": "40Gi"}, "engines": {"value": "7"}}}
    ],
    "counterSet": [{"name": "gpu", "counters": {"memory": {"value": "40Gi"}, "engines": {"value": "7"}}}],
}


def a_slice(**fields: Any) -> dict[str, Any]:
    return resource_slice("s", nodeName="n", **fields)


def mixed(**changes: Any) -> dict[str, Any]:
    own = {
        **device("gpu-0", {"type": "mine"}),
        "includes": [{"name": "gpu"}, {"name": "big"}],
        "consumesCounters": [
            {"counterSet": "gpu-0", "includes": [{"name": "whole"}], "counters": {"engines": {"value": "6"}}}
        ],
    }
    sets = [{"name": "gpu-0", "includes": ["gpu"], "counters": {"engines": {"value": "8"}}}]
    return a_slice(content=[own], sharedCounters=sets, mixins=MIXINS, **changes)


def spec_of(raw: dict[str, Any]) -> dict[str, Any]:
    return dict(to_v1(raw)["spec"])


def test_includes_apply_in_order_and_what_is_written_out_wins():
    spec = spec_of(mixed())
    assert "mixins" not in spec
    assert spec["devices"] == [
        {
            "name": "gpu-0",
            "attributes": {"model": {"string": "B"}, "type": {"string": "mine"}},
            "capacity": {"memory": {"value": "40Gi"}},
            "consumesCounters": [
                {"counterSet": "gpu-0", "counters": {"memory": {"value": "40Gi"}, "engines": {"value": "6"}}}
            ],
        }
    ]
    assert spec["sharedCounters"] == [
        {"name": "gpu-0", "counters": {"memory": {"value": "40Gi"}, "engines": {"value": "8"}}}
    ]


@pytest.mark.parametrize(
    ("kind", "field", "line"),
    [
        ("device", "device", "spec.devices[0].includes[0]: the slice has no such mixin as gpu; it has big"),
        (
            "deviceCounterConsumption",
            "draw",
            "spec.devices[0].consumesCounters[0].includes[0]: the slice has no such mixin as whole",
        ),
        ("counterSet", "set", "spec.sharedCounters[0].includes[0]: the slice has no such mixin as gpu"),
    ],
)
def test_a_mixin_that_is_not_in_the_slice_refuses_the_slice(kind: str, field: str, line: str):
    raw = mixed()
    raw["spec"]["mixins"] = {**MIXINS, kind: MIXINS[kind][1:]}
    with pytest.raises(Malformed) as refused:
        read(raw)
    assert str(refused.value) == f"ResourceSlice s: {line}"


def test_two_mixins_of_one_name_refuse_the_slice():
    raw = mixed()
    raw["spec"]["mixins"] = {**MIXINS, "counterSet": MIXINS["counterSet"] * 2}
    with pytest.raises(Malformed, match=r"spec.mixins.counterSet\[1\].name: two mixins are named gpu"):
        read(raw)


def test_mixins_are_read_under_basic_too():
    raw = mixed()
    (flat,) = raw["spec"]["devices"]
    name = flat.pop("name")
    raw["spec"]["devices"] = [{"name": name, "basic": flat}]
    assert spec_of({**raw, "apiVersion": "resource.k8s.io/v1beta1"}) == spec_of(mixed())


def test_an_unfinished_version_is_read_and_said():
    raw = mixed()
    raw["spec"]["devices"][0]["attributes"]["driverVersion"] = {"version": "560.35.03"}
    raw["spec"]["devices"][0]["attributes"]["cuda"] = {"version": "12.6"}
    warnings: list[str] = []
    attributes = to_v1(raw, warnings)["spec"]["devices"][0]["attributes"]
    assert attributes["driverVersion"] == {"version": "560.35.3"}
    assert attributes["cuda"] == {"version": "12.6.0"}
    assert warnings == [
        "ResourceSlice s: versions that are not semver are converted: 560.35.03 as 560.35.3, 12.6 as 12.6.0"
    ]


@needs(DGX)
def test_the_two_gpus_of_the_proposal_mean_what_was_published_later():
    text = (DGX / "two-gpu-dgxa100-mixins-as-proposed.yaml").read_text(encoding="utf-8")
    # The text has one device with another key, by mistake.
    proposed = yaml.safe_load(
        text.replace("- composite:\n    consumesCapacity:", "- basic:\n    consumesCounter:")
    )
    raw = a_slice(**proposed)
    found = read({**raw, "apiVersion": "resource.k8s.io/v1beta1"})
    counters, devices = yaml.safe_load_all(
        (DGX / "two-gpu-dgxa100-resolved-to-v1.yaml").read_text(encoding="utf-8")
    )
    assert isinstance(found, ResourceSlice)
    assert drawn(found) == drawn(read(devices))
    assert totals(found) == totals(read(counters))


def drawn(source: Any) -> dict[str, list[tuple[str, dict[str, int]]]]:
    return {
        found.name.replace(".", "-"): [
            (draw.counter_set, amounts(draw.counters)) for draw in found.consumes_counters
        ]
        for found in source.spec.devices
    }


def totals(source: Any) -> dict[str, dict[str, int]]:
    return {counters.name: amounts(counters.counters) for counters in source.spec.shared_counters}


def amounts(counters: Any) -> dict[str, int]:
    return {
        key.replace("memorySlice", "memory-slice-"): counter["value"].nanos
        for key, counter in counters.items()
    }


@pytest.mark.parametrize("kind", MIXINS)
def test_mixins_do_not_nest_and_have_names(kind: str):
    def refused(mixin: dict[str, Any]) -> str:
        raw = a_slice(content=[device("gpu-0")], mixins={kind: [mixin]})
        with pytest.raises(Malformed) as caught:
            to_v1(raw)
        return str(caught.value).removeprefix("ResourceSlice s: ")

    assert refused({"name": "m", "includes": ["n"]}) == (
        f"spec.mixins.{kind}[0].includes: a mixin cannot include mixins; list them in the devices"
    )
    assert refused({"name": "a b"}).startswith(f"spec.mixins.{kind}[0].name: must be a DNS label")
