"""Resource definitions: our schemas of custom kinds as JSON Schema, and those that other projects publish.

The published ones are not part of this repository. They are read from the folder that DEFINITIONS names, or
from `shared/conformance/definitions` beside the checkout: files as `kubectl get crds -o yaml` prints them.
"""

import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import yaml

from reconciler.api.validation.kinds import ServedKind
from reconciler.api.validation.structural import (
    AnyObject,
    Fields,
    Flag,
    Integer,
    Items,
    Schema,
    Text,
    Texts,
    Time,
    unknown,
)
from reconciler.plugins.kueue.objects import (
    ADMISSION_CHECK,
    ADMISSION_CHECK_SCHEMA,
    RESOURCE_FLAVOR,
    RESOURCE_FLAVOR_SCHEMA,
    WORKLOAD,
    WORKLOAD_SCHEMA,
)
from reconciler.plugins.provisioning.objects import PROVISIONING_REQUEST, PROVISIONING_REQUEST_SCHEMA
from tests.tools.checkout import SHARED

Json = dict[str, Any]
DEFINITIONS = "DRA_RECONCILER_TEST_DEFINITIONS"
SCHEMAS: Mapping[ServedKind, Fields] = {
    WORKLOAD: WORKLOAD_SCHEMA,
    ADMISSION_CHECK: ADMISSION_CHECK_SCHEMA,
    RESOURCE_FLAVOR: RESOURCE_FLAVOR_SCHEMA,
    PROVISIONING_REQUEST: PROVISIONING_REQUEST_SCHEMA,
}
_LIMITS = (
    "type", "format", "pattern", "minimum", "minLength", "maxLength", "minItems", "maxItems", "maxProperties",
    "x-kubernetes-list-map-keys",
)  # fmt: skip
_IMMUTABLE = "self == oldSelf"


class Published(NamedTuple):
    """One version of a definition."""

    source: str
    definition: Json
    version: str
    schema: Json

    @property
    def name(self) -> str:
        found = self.definition["spec"]
        return f"{found['names']['plural']}.{found['group']}/{self.version}"

    def of(self, kind: ServedKind) -> bool:
        """Whether it defines a kind, in this or another version."""
        found = self.definition["spec"]
        return (found["names"]["kind"], found["group"]) == (kind.kind, kind.group)


@cache
def published() -> tuple[Published, ...]:
    """All served versions of all definitions in the folder; none without one."""
    folder = Path(os.environ.get(DEFINITIONS) or SHARED / "conformance" / "definitions")
    paths = sorted(path for path in folder.rglob("*") if path.suffix in {".yaml", ".json"})
    return tuple(
        Published(str(path.relative_to(folder)), one, version["name"], version["schema"]["openAPIV3Schema"])
        for path in paths
        for one in _definitions(path)
        for version in one["spec"]["versions"]
        if version["served"]
    )


def _definitions(path: Path) -> Iterator[Json]:
    for document in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader):
        for one in document.get("items", [document]) if document else ():
            if one.get("kind") == "CustomResourceDefinition":
                yield one


def json_schema(schema: Schema) -> Json:
    """One of our schemas as a definition would say it."""
    match schema:
        case Text():
            limits = {"minLength": schema.shortest, "maxLength": schema.longest, "pattern": schema.pattern}
            words = {"enum": list(schema.words)} if schema.words else {}
            return {"type": "string", **_given(limits), **words}
        case Time():
            return {"type": "string", "format": "date-time"}
        case Integer(least=least):
            return {"type": "integer", **({} if least is None else {"minimum": least})}
        case Flag():
            return {"type": "boolean"}
        case AnyObject():
            return {"type": "object"}
        case Texts(value=value, most=most):
            limits = {"maxProperties": most}
            return {"type": "object", "additionalProperties": json_schema(value), **_given(limits)}
        case Items():
            limits = {"minItems": schema.fewest, "maxItems": schema.most}
            keys = {"x-kubernetes-list-map-keys": [schema.key]} if schema.key else {}
            return {"type": "array", "items": json_schema(schema.of), **_given(limits), **keys}
        case Fields():
            properties = {name: json_schema(one) for name, one in schema.of.items()}
            for name in schema.immutable:
                properties[name]["x-kubernetes-validations"] = [{"rule": _IMMUTABLE}]
            return {"type": "object", "properties": properties, "required": list(schema.required)}


def _given(limits: Json) -> Json:
    return {name: value for name, value in limits.items() if value}


def facts(schema: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Each field with its type and limits: what two schemas have in common that mean the same."""
    found = {name: schema[name] for name in _LIMITS if name in schema}
    if found.get("format") in ("int32", "int64"):
        del found["format"]
    if "enum" in schema:
        found["enum"] = sorted(schema["enum"])
    if any(rule["rule"] == _IMMUTABLE for rule in schema.get("x-kubernetes-validations", ())):
        found["immutable"] = True
    yield path, found
    for name, inner in schema.get("properties", {}).items():
        for where, one in facts(inner, f"{path}.{name}"):
            is_required = where == f"{path}.{name}" and name in schema.get("required", ())
            yield where, one | ({"required": True} if is_required else {})
    for step, inner in (("[]", schema.get("items")), ("{}", schema.get("additionalProperties"))):
        if isinstance(inner, dict):
            yield from facts(inner, path + step)


def assert_valid(kind: ServedKind, found: Json) -> None:
    """An object, as it is on the server, fits our schema of its kind and all published ones, and has no other
    fields than these list.
    """
    shown = {"apiVersion": str(kind.stored), "kind": kind.kind, **found}
    assert list(unknown(SCHEMAS[kind], shown)) == []
    jsonschema.Draft202012Validator(json_schema(SCHEMAS[kind])).validate(shown)
    for one in published():
        if one.of(kind):  # the schema itself is not checked: it has patterns of Go
            jsonschema.Draft202012Validator(one.schema).validate(shown)


def dropped(schema: Json, value: Any, path: str = "") -> Iterator[str]:
    """Paths of fields that a server with this published schema drops."""
    if isinstance(value, list):
        for at, one in enumerate(value):
            yield from dropped(schema.get("items", {}), one, f"{path}[{at}]")
    elif isinstance(value, dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name, one in value.items() if path != "metadata" else ():
            here = f"{path}.{name}".removeprefix(".")
            inner = known.get(name, others)
            if inner is None:
                yield here
            else:
                yield from dropped(inner, one, here)
