"""Schemas of custom resources refuse what JSON Schema refuses, and list all fields that we read."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, get_args

import jsonschema
import pytest
from pydantic import BaseModel

from reconciler.api.validation.fields import WrongType
from reconciler.api.validation.kinds import ServedKind
from reconciler.api.validation.structural import (
    DNS_LABEL,
    AnyObject,
    Fields,
    Flag,
    Integer,
    Items,
    Schema,
    Text,
    Texts,
    Time,
    check,
    unknown,
)
from reconciler.plugins.kueue import objects as read_kueue
from reconciler.plugins.provisioning import objects as read_provisioning
from tests.tools.definitions import SCHEMAS, json_schema

MODELS: dict[ServedKind, type[BaseModel]] = {
    read_kueue.WORKLOAD: read_kueue.Workload,
    read_kueue.ADMISSION_CHECK: read_kueue.AdmissionCheck,
    read_kueue.RESOURCE_FLAVOR: read_kueue.ResourceFlavor,
    read_provisioning.PROVISIONING_REQUEST: read_provisioning.ProvisioningRequest,
}
STRANGE: tuple[Any, ...] = (1, "", True, [], {})
TIME = "2026-01-01T00:00:00Z"


def least(schema: Schema, number: int = 0) -> Any:
    """A value that fits; others of other numbers have another key."""
    match schema:
        case Text(words=words) if words:
            return words[0]
        case Text():
            return f"a{number}"
        case Time():
            return TIME
        case Integer(least=smallest):
            return smallest or 0
        case Flag():
            return True
        case AnyObject() | Texts():
            return {}
        case Items(of=of, fewest=fewest):
            return [least(of, at) for at in range(fewest)]
        case Fields(of=of, required=required):
            return {
                name: least(one, number) for name, one in of.items() if name in required or name == "name"
            }


def values(schema: Schema) -> Iterator[Any]:
    """Values at each limit and beyond, and of other types."""
    if not isinstance(schema, Time):
        yield from STRANGE
    yield least(schema)
    match schema:
        case Text(longest=longest):
            yield from ("A", "a.b", "a-1", "-a", "a_c", "a b", "Pending", "é" * 20_000)
            if longest is not None:
                yield from ("a" * longest, "a" * (longest + 1))
        case Integer():
            yield from (-1, 0, 1, 1.5)
        case Texts(value=value, most=most):
            yield from ({"a": one} for one in values(value))
            if most is not None:
                yield from ({str(at): "a" for at in range(size)} for size in (most, most + 1))
        case Items(of=of, most=most, fewest=fewest):
            yield from (
                [least(of, at) for at in range(size)] for size in (fewest, (most or 30), (most or 30) + 1)
            )
            yield [1]
        case Fields(required=required):
            fitting = least(schema)
            yield from ({key: fitting[key] for key in fitting if key != left} for left in required)


def refused(schema: Schema, value: Any) -> bool:
    try:
        return bool(check(schema, value))
    except WrongType:
        return True


def parts(schema: Schema) -> Iterator[Schema]:
    yield schema
    match schema:
        case Items(of=of):
            yield from parts(of)
        case Fields(of=of):
            for one in of.values():
                yield from parts(one)


@pytest.mark.parametrize("kind", SCHEMAS, ids=lambda kind: kind.kind)
def test_it_refuses_exactly_what_json_schema_refuses(kind: ServedKind):
    """At each limit of each field, in an object that is valid otherwise."""
    verdicts = Counter[bool]()
    for part in parts(SCHEMAS[kind]):
        if isinstance(part, Fields):
            validator = jsonschema.Draft202012Validator(json_schema(part))
            assert validator.is_valid(least(part))
            for name, inner in part.of.items():
                for value in values(inner):
                    found = {**least(part), name: value}
                    verdicts[validator.is_valid(found)] += 1
                    assert refused(part, found) is not validator.is_valid(found), (name, value)
    assert min(verdicts[True], verdicts[False]) > 20


def test_entries_of_one_key_and_values_of_fixed_fields_are_checked():
    named = Fields({"of": Items(Fields({"name": Text()}), key="name")})
    (cause,) = check(named, {"of": [{"name": "a"}, {"name": "b"}, {"name": "a"}]})
    assert (cause.reason, cause.field) == ("FieldValueDuplicate", "of[2].name")
    fixed = Fields({"spec": Fields({"a": Text()}, immutable=("a",))})
    assert check(fixed, {"spec": {"a": "1"}}, {"spec": {}}) == []
    (cause,) = check(fixed, {"spec": {"a": "1"}}, {"spec": {"a": "2"}})
    assert (cause.field, cause.message) == ("spec.a", 'Invalid value: "1": field is immutable')


@pytest.mark.parametrize(
    "time",
    [TIME, "2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00.123456789+02:00", "1999-12-31T23:59:59-00:00"],
)
def test_times_are_those_of_rfc_3339(time: str):
    assert check(Fields({"at": Time()}), {"at": time}) == []


@pytest.mark.parametrize(
    "time",
    [
        "yesterday", "", "2026-01-01", "20260101T00", "2026-01-01T00:00Z", "2026-01-01T00:00:00",
        "2026-01-01 00:00:00Z", "2026-W01-1T00:00:00Z", "2026-01-01T00:00:00+0200", "2026-01-01T00:00:00Z\n",
        "2026-13-01T00:00:00Z", "2026-01-01T25:00:00Z", "0001-01-01T00:00:00+01:00", "٢٠٢٦-01-01T00:00:00Z",
    ],
)  # fmt: skip
def test_other_times_are_refused(time: str):
    (cause,) = check(Fields({"at": Time()}), {"at": time})
    assert cause.message.endswith("must be a time in RFC 3339 format")


def test_a_name_that_ends_with_a_line_end_is_refused():
    """Not compared with JSON Schema: where `$` matches in its patterns depends on who reads them."""
    named = Fields({"name": Text(63, pattern=DNS_LABEL)})
    assert check(named, {"name": "abc"}) == []
    (cause,) = check(named, {"name": "abc\n"})
    assert cause.message.endswith(f"should match '{DNS_LABEL}'")


def test_fields_that_are_not_listed_are_named():
    schema = SCHEMAS[read_kueue.WORKLOAD]
    given = {"metadata": {"x": 1}, "spec": {"podSets": [{"template": {"x": 1}, "size": 1}], "y": 1}, "z": 1}
    assert list(unknown(schema, given)) == ["spec.podSets[0].size", "spec.y", "z"]


@pytest.mark.parametrize("kind", SCHEMAS, ids=lambda kind: kind.kind)
def test_all_that_is_read_is_listed(kind: ServedKind):
    assert list(missing(MODELS[kind], SCHEMAS[kind], kind.kind)) == []


def missing(model: type[BaseModel], schema: Schema, path: str) -> Iterator[str]:
    """Fields of a model that a schema lacks."""
    while isinstance(schema, Items):
        schema = schema.of
    if not isinstance(schema, Fields):
        yield f"{path}: it is no object there"
        return
    for name, field in model.model_fields.items():
        there = field.alias or name
        if there not in schema.of:
            yield f"{path}.{there}"
        for inner in models_in(field.annotation):
            yield from missing(inner, schema.of[there], f"{path}.{there}")


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for one in get_args(annotation):
        yield from models_in(one)
