"""Statuses of claims read from their text are those that the models read."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Struct
from pydantic import ValidationError

from reconciler.api.objects.claims import (
    AllocatedDevice,
    Allocation,
    ConsumerReference,
    DeviceAllocation,
    ResourceClaimStatus,
)
from reconciler.api.objects.model import Model
from reconciler.api.versions import claim_status_text as text
from reconciler.api.versions.claim_status_text import read_status
from tests.tools.builders import Object

NAMES: Object = {"request": "a", "driver": "d", "pool": "p", "device": "e"}
PINNED: Object = {
    "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
}
USER: Object = {"resource": "pods", "name": "p", "uid": "u"}
DEVICE_FIELDS = text._DeviceText.__struct_encode_fields__


def allocated(*results: Object, **more: Any) -> Object:
    return {"allocation": {"devices": {"results": list(results)}, **more}}


PLAIN: list[Object] = [
    {},
    allocated(),
    allocated(NAMES, {**NAMES, "device": "f", "later": {"x": 1}}, nodeSelector=PINNED),
    {**allocated(NAMES, allocationTimestamp="2026-01-01T00:00:00Z"), "reservedFor": [USER]},
    {"reservedFor": [{**USER, "apiGroup": "g"}, USER]},
]
SPECIAL: list[Object] = [
    {"allocation": None, "reservedFor": None, "devices": None},
    allocated(nodeSelector=None, allocationTimestamp=None),
    allocated({**NAMES, "adminAccess": True}),
    allocated({**NAMES, "tolerations": [{"operator": "Exists"}]}),
    allocated({**NAMES, "bindingConditions": ["c"], "bindingFailureConditions": ["f"]}),
    allocated({**NAMES, "shareID": "s", "consumedCapacity": {"m": "1Gi"}}),
    allocated({**NAMES, "skipNodeOperations": ["o"]}),
    {"allocation": {"devices": {"results": [NAMES], "config": [{"source": "FromClass"}]}}},
    {**allocated(NAMES), "devices": [{"driver": "d", "data": {"x": [1]}}]},
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def said(part: Any) -> Any:
    """All fields that were given, at every level, with their types."""
    if isinstance(part, Model):
        return {name: said(getattr(part, name)) for name in part.model_fields_set}
    return [said(one) for one in part] if isinstance(part, tuple) else repr(part)


def carefully(raw: Object) -> tuple[str, Any] | None:
    try:
        found = ResourceClaimStatus.model_validate_json(json.dumps(raw))
    except ValidationError:
        return None
    return repr(found), said(found)


def quickly(raw: Object) -> tuple[str, Any] | None:
    try:
        found = read_status(json.dumps(raw).encode())
    except ValueError:
        return None
    return repr(found), said(found)


@pytest.mark.parametrize("raw", [*PLAIN, *SPECIAL], ids=range(len(PLAIN + SPECIAL)))
def test_a_status_reads_as_the_models_read_it(raw):
    assert quickly(raw) == carefully(raw) is not None


def test_a_usual_status_is_not_left_to_the_models():
    """They would make a node selector for each claim."""
    found = [read_status(json.dumps(PLAIN[2]).encode()).allocation for _ in range(2)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].node_selector is found[1].node_selector


@pytest.mark.parametrize(
    ("cut", "model"),
    [
        (text._DeviceText, AllocatedDevice),
        (text._DevicesText, DeviceAllocation),
        (text._AllocationText, Allocation),
        (text._ConsumerText, ConsumerReference),
        (text._StatusText, ResourceClaimStatus),
    ],
    ids=lambda kind: kind.__name__,
)
def test_every_field_of_the_models_is_cut_out(cut: type[Struct], model: type[Model]):
    aliases = {field.alias or name for name, field in model.model_fields.items()}
    assert set(cut.__struct_encode_fields__) == aliases


@given(
    where=st.sampled_from([
        ("allocation",), ("reservedFor",), ("devices",), ("allocation", "devices"),
        ("allocation", "nodeSelector"), ("allocation", "allocationTimestamp"),
        ("allocation", "devices", "results"), ("allocation", "devices", "config"),
        ("reservedFor", 0, "apiGroup"), ("reservedFor", 0, "uid"),
        *[("allocation", "devices", "results", 0, name) for name in DEVICE_FIELDS],
    ]),
    value=JSON,
)  # fmt: skip
@example(where=("allocation", "devices", "results", 0, "device"), value="\ud800")
@example(where=("allocation", "devices", "results", 0, "adminAccess"), value=1)
def test_anything_in_a_field_reads_as_the_models_read_it(where: tuple[Any, ...], value: Any):
    raw = json.loads(json.dumps(PLAIN[3]))
    part = raw
    for step in where[:-1]:
        part = part[step]
    part[where[-1]] = value
    assert quickly(raw) == carefully(raw)
