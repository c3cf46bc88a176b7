"""Fields that servers drop, carried by an annotation."""

import json
from typing import Any

import pytest
import yaml

from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.versions.extensions import ANNOTATION, conflicts, with_annotation
from reconciler.api.versions.reading import decode, needs_conversion, read, to_v1
from reconciler.errors import Malformed
from tests.tools.builders import Object, device, resource_slice
from tests.tools.checkout import SHARED, needs

GROUPS = "compatibilityGroups"


def slice_with(extras: Any, *devices: Object) -> Object:
    made = resource_slice("s", devices, nodeName="n")
    text = extras if isinstance(extras, str) else json.dumps(extras)
    made["metadata"]["annotations"] = {ANNOTATION: text}
    return made


def drawing(name: str = "A", *groups: str, **fields: Any) -> Object:
    made = device(name, draws={"g": {"m": 1}, "h": {"m": 1}}, **fields)
    if groups:
        made["consumesCounters"][0][GROUPS] = list(groups)
    return made


def typed(raw: Object) -> ResourceSlice:
    found = read(raw)
    assert isinstance(found, ResourceSlice)
    return found


def groups_of(found: ResourceSlice) -> list[tuple[str, ...]]:
    return [draw.compatibility_groups for one in found.spec.devices for draw in one.consumes_counters]


def carrying(*groups: str, of: str = "g") -> Object:
    return {"consumesCounters": [{"counterSet": of, GROUPS: list(groups)}]}


def test_groups_and_expressions_are_read_from_the_annotation():
    extras = {"A": {**carrying("mig"), "compatibleOnlyWith": {"expression": "true"}}}
    found = typed(slice_with(extras, drawing("A"), drawing("B")))
    assert groups_of(found) == [("mig",), (), (), ()]
    first, second = found.spec.devices
    assert first.compatible_only_with is not None
    assert first.compatible_only_with.expression == "true"
    assert second.compatible_only_with is None


def test_a_field_of_the_device_wins_and_the_conflict_is_reported():
    stated = {"expression": "false"}
    extras = {"A": {**carrying("foo"), "compatibleOnlyWith": {"expression": "true"}}}
    raw = slice_with(extras, drawing("A", "mig", compatibleOnlyWith=stated))
    found = typed(raw)
    assert groups_of(found)[0] == ("mig",)
    assert found.spec.devices[0].compatible_only_with is not None
    assert found.spec.devices[0].compatible_only_with.expression == "false"
    told = [line.partition(" differs")[0] for line in conflicts(raw)]
    assert told == ["device A: compatibleOnlyWith", "device A, counter set g: compatibilityGroups"]


def test_the_same_in_both_places_is_no_conflict():
    raw = slice_with({"A": carrying("mig")}, drawing("A", "mig"))
    assert groups_of(typed(raw)) == [("mig",), ()]
    assert conflicts(raw) == []


UNKNOWN = {
    "{": "not JSON",
    "[]": "device name -> object of fields",
    '"x"': "device name -> object of fields",
    '{"A": 1}': "device A: must be an object",
    '{"A": [{}]}': "device A: must be an object",
    '{"A": {}, "A": {"compatibleOnlyWith": {"expression": "false"}}}': "has the key A twice",
    '{"Z": {"compatibleOnlyWith": {"expression": "true"}}}': "names device Z, which the slice does not have",
    '{"A": {"compatibleOnlyWth": {"expression": "false"}}}': "unknown key compatibleOnlyWth; use only comp",
    '{"A": {"compatibleOnlyWith": "false"}}': "compatibleOnlyWith: must be an object with expression",
    '{"A": {"compatibleOnlyWith": {"expresion": "false"}}}': "unknown key expresion; use only expression",
    '{"A": {"compatibleOnlyWith": {}}}': "compatibleOnlyWith.expression: must be a string",
    '{"A": {"consumesCounters": {}}}': "consumesCounters: must be a list",
    '{"A": {"consumesCounters": ["g"]}}': r"consumesCounters\[0\]: must be an object",
    '{"A": {"consumesCounters": [{"counterSet": "g", "compatibilityGroup": ["x"]}]}}': "compatibilityGroup;",
    '{"A": {"consumesCounters": [{"counterSet": "g", "compatibilityGroups": "x"}]}}': "must be a list of",
    '{"A": {"consumesCounters": [{"compatibilityGroups": ["x"]}]}}': "counterSet: must be the name",
    '{"A": {"consumesCounters": [{"counterSet": "g"}, {"counterSet": "g"}]}}': "names g a second time",
    '{"A": {"consumesCounters": [{"counterSet": "z", "compatibilityGroups": ["x"]}]}}': "names counter set z",
    '{"A": {"composite": {"consumesCapacityFrm": ["B"]}}}': "unknown key consumesCapacityFrm",
    '{"A": {"consumesCapacityFrom": "B"}}': "consumesCapacityFrom: must be a list",
    '{"A": {"consumesCapacityFrom": [{"nme": "B"}]}}': "must be a string",
    '{"A": {"consumesCapacityFrom": [{"name": "B", "share": 1}]}}': "unknown key share",
    '{"A": {"consumesCapacityFrom": ["Z"]}}': "names Z, which is not a device of this slice",
    '{"A": {"consumesCapacityFrom": ["B"], "composite": {"consumesCapacityFrom": ["B"]}}}': "twice",
    '{"A": {"composite": {"includes": [{"name": "m"}]}}}': "m",
    '{"Z": {"consumesCapacityFrom": ["A"]}}': "names device Z",
}


@pytest.mark.parametrize(("text", "told"), UNKNOWN.items())
def test_an_annotation_with_something_unknown_refuses_the_slice(text: str, told: str):
    """Giving its devices without their rules would be worse."""
    with pytest.raises(Malformed, match=told) as caught:
        read(slice_with(text, drawing("A"), drawing("B")))
    assert str(caught.value).startswith("ResourceSlice s")


def tree_in_place(*names: str) -> Object:
    """A root with 4 units and leaves that take 2 of them, in the shape of the proposal."""
    leaves = [
        {"name": name, "composite": {**UNITS[2], "consumesCapacityFrom": [{"name": "root"}]}}
        for name in names
    ]
    return resource_slice("s", [{"name": "root", "composite": UNITS[4]}, *leaves], nodeName="n")


UNITS = {count: {"capacity": {"units": {"value": str(count)}}} for count in (2, 4)}


@pytest.mark.parametrize(
    "fields",
    [
        {"consumesCapacityFrom": [{"name": "root"}]},
        {"consumesCapacityFrom": ["root"]},
        {"composite": {"consumesCapacityFrom": [{"name": "root"}]}},
    ],
)
def test_trees_of_the_annotation_are_those_in_place(fields: Object):
    """A server keeps flat devices and drops the rest."""
    flat = [device("root", capacity={"units": "4"}), *(device(n, capacity={"units": "2"}) for n in "AB")]
    found = typed(slice_with({"A": fields, "B": fields}, *flat))
    assert found.spec == typed(tree_in_place("A", "B")).spec
    assert [draw.counter_set for draw in found.spec.devices[1].consumes_counters] == ["root"]


def test_flat_devices_may_name_their_source_in_place():
    """No server keeps the field, but files have it; without it, leaf and root would both be given."""
    flat = [device("root", capacity={"units": "4"}), *(device(n, capacity={"units": "2"}) for n in "AB")]
    for leaf in flat[1:]:
        leaf["consumesCapacityFrom"] = [{"name": "root"}]
    raw = resource_slice("s", flat, nodeName="n")
    assert needs_conversion(raw)
    assert typed(raw).spec == typed(tree_in_place("A", "B")).spec
    assert decode("ResourceSlice", raw["apiVersion"], json.dumps(raw).encode()) == typed(raw)


def test_a_source_in_place_wins_over_the_annotation():
    raw = tree_in_place("A", "B")
    raw["metadata"]["annotations"] = {ANNOTATION: json.dumps({"B": {"consumesCapacityFrom": ["A"]}})}
    assert typed(raw).spec == typed(tree_in_place("A", "B")).spec


def test_a_tree_keeps_the_counters_and_rules_of_its_devices():
    extras = {"A": {**carrying("mig"), "consumesCapacityFrom": ["B"]}, "B": carrying("mig", of="h")}
    found = typed(slice_with(extras, drawing("A"), drawing("B")))
    told = [[d.counter_set for d in one.consumes_counters] for one in found.spec.devices]
    assert told == [["g", "h", "B"], ["g", "h", "B"]]
    assert groups_of(found) == [("mig",), (), (), (), ("mig",), ()]


def test_devices_under_basic_may_be_annotated():
    raw = slice_with({"A": carrying("mig")}, drawing("A"))
    raw["apiVersion"] = "resource.k8s.io/v1beta1"
    raw["spec"]["devices"] = [
        {"name": one.pop("name"), "basic": one} for one in [dict(d) for d in raw["spec"]["devices"]]
    ]
    assert groups_of(typed(raw)) == [("mig",), ()]


def test_what_is_moved_to_the_annotation_reads_as_before():
    raw = resource_slice(
        "s",
        [drawing("A", "mig", "x"), drawing("B"), device("C", compatibleOnlyWith={"expression": "true"})],
        nodeName="n",
    )
    moved = with_annotation(raw)
    assert "compatibleOnlyWith" not in json.dumps(moved["spec"])
    assert GROUPS not in json.dumps(moved["spec"])
    assert typed(dict(moved)).spec == typed(raw).spec
    assert with_annotation(moved) == moved


def test_slices_without_such_fields_need_no_annotation():
    raw = resource_slice("s", [drawing("B")], nodeName="n")
    assert with_annotation(raw) is raw


# -- Mixins in the shape of KEP-5234, and the two GPUs of the proposal that came before it.


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
