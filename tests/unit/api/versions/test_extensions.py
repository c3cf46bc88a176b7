"""Fields that servers drop, carried by an annotation."""

import json
from typing import Any

import pytest

from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.versions.extensions import ANNOTATION, conflicts, with_annotation
from reconciler.api.versions.reading import read
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


@pytest.mark.parametrize(
    ("extras", "told"),
    [
        pytest.param({"Z": carrying("x")}, "device Z", id="no such device"),
        pytest.param({"A": carrying("x", of="z")}, "counter set z", id="no such counter set"),
        pytest.param({"A": carrying("mig")}, "", id="the same twice"),
    ],
)
def test_what_has_no_effect_is_told_and_otherwise_ignored(extras: Object, told: str):
    raw = slice_with(extras, drawing("A", "mig"))
    assert groups_of(typed(raw)) == [("mig",), ()]
    assert [told in line for line in conflicts(raw)] == ([True] if told else [])


@pytest.mark.parametrize("text", ["{", "[]", '"x"', '{"A": 1}', '{"A": [{}]}'])
def test_an_annotation_that_cannot_be_read_makes_the_slice_unreadable(text: str):
    """Giving its devices without their rules would be worse."""
    with pytest.raises(Malformed, match="device-extensions"):
        read(slice_with(text, drawing()))


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
