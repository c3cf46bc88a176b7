"""Fields that servers drop, carried by an annotation."""

import json
from typing import Any

import pytest

from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.versions.extensions import ANNOTATION, conflicts, with_annotation
from reconciler.api.versions.reading import decode, needs_conversion, read
from reconciler.errors import Malformed
from tests.tools.builders import Object, device, resource_slice

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
    assert [line.partition(" differs")[0] for line in conflicts(raw)] == [
        "device A: compatibleOnlyWith",
        "device A, counter set g: compatibilityGroups",
    ]


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
    assert [[d.counter_set for d in one.consumes_counters] for one in found.spec.devices] == [
        ["g", "h", "B"],
        ["g", "h", "B"],
    ]
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
