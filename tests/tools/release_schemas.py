"""What releases of Kubernetes serve, by the schemas that the package `kubernetes-validate` carries."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import msgspec
import pytest
from kubernetes_validate import utils

utils.schema_contents = cache(utils.schema_contents)  # else it reads megabytes for each object
GROUP = "resource.k8s.io"
MINORS = (32, 33, 34, 35, 36, 37)
"""Minor releases of Kubernetes 1 that docs/versions.md speaks of"""
KINDS = ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass", "DeviceTaintRule")
_TYPE = re.compile(r"io\.k8s\.api\.resource\.(?P<version>v1\w*)\.(?P<type>\w+)")
_NEEDS = re.compile(r"This is an? (?P<stage>\w+) field and requires enabling (?P<gates>[^.]*)")
_GATE = re.compile(r"\bDRA[A-Z]\w+")

Fields = Mapping[str, str]
"""Field -> the type of what is in it, empty for anything that is no type of this group and version"""


def assert_published(made: Mapping[str, Any], release: str = "1.36") -> None:
    """The published schema has every field of an object, with a value of its type."""
    kubernetes_validate.validate(made, release, strict=True)


@cache
def definitions(minor: int) -> dict[str, dict[str, Any]]:
    """Full name of a type -> its schema: `io.k8s.api.core.v1.Pod`."""
    folder = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema" / f"v1.{minor}.0-local"
    if not folder.exists():
        pytest.skip(f"kubernetes-validate does not carry the schemas of 1.{minor}")
    found: dict[str, dict[str, Any]] = msgspec.json.decode((folder / "_definitions.json").read_bytes())[
        "$defs"
    ]
    return found


@cache
def types(minor: int) -> dict[tuple[str, str], dict[str, Any]]:
    """(version, type) of the group of devices -> its schema."""
    found = {}
    for name, schema in definitions(minor).items():
        if match := _TYPE.fullmatch(name):
            found[match["version"], match["type"]] = schema
    return found


def served(minor: int, kind: str) -> set[str]:
    """The versions that a release knows a kind in. Beta and alpha ones may have to be enabled there."""
    return {version for version, name in types(minor) if name == kind}


def fields(minor: int, version: str, name: str) -> Fields:
    """The fields of a type."""
    properties = types(minor)[version, name].get("properties", {})
    return {key: _referred(schema) for key, schema in properties.items()}


def gated(minor: int, version: str) -> dict[tuple[str, str], tuple[frozenset[str], bool]]:
    """(type, field) -> the gates that its description says it needs, and whether it is said to be alpha."""
    found = {}
    for (at, name), schema in types(minor).items():
        for key, part in schema.get("properties", {}).items() if at == version else ():
            if needs := _NEEDS.search(str(part.get("description", ""))):
                found[name, key] = (frozenset(_GATE.findall(needs["gates"])), needs["stage"] == "alpha")
    return found


def pruned(obj: Any, minor: int, version: str, name: str, off: frozenset[str]) -> Any:
    """An object with what a server of the release keeps: no fields that it does not know or that are off."""
    if not isinstance(obj, dict):
        return obj
    known, gates = fields(minor, version, name), gated(minor, version)
    kept = {}
    for key, value in obj.items():
        if key not in known or gates.get((name, key), (frozenset(), False))[0] & off:
            continue
        inner = known[key]
        if not inner:
            kept[key] = value
        elif isinstance(value, list):
            kept[key] = [pruned(part, minor, version, inner, off) for part in value]
        elif isinstance(value, dict) and inner.startswith("{}"):
            kept[key] = {k: pruned(part, minor, version, inner[2:], off) for k, part in value.items()}
        else:
            kept[key] = pruned(value, minor, version, inner, off)
    return kept


def _referred(schema: Mapping[str, Any]) -> str:
    """The type in a field; that of the values of a map after `{}`."""
    for part, prefix in ((schema, ""), (schema.get("items"), ""), (schema.get("additionalProperties"), "{}")):
        if isinstance(part, dict) and (match := _TYPE.search(part.get("$ref", ""))):
            return prefix + match["type"]
    return ""


def full_name(group: str, version: str, kind: str) -> str:
    """The full name of the type of a kind of Kubernetes itself."""
    return f"io.k8s.api.{(group or 'core').partition('.')[0]}.{version}.{kind}"


def filled(schema: Mapping[str, Any], known: Mapping[str, Any], within: tuple[str, ...] = ()) -> Any:
    """A value of a schema with every field, one element in each list and map; nothing within itself."""
    if "$ref" in schema:
        name = type_of(schema)
        return {} if name in within else filled(known[name], known, (*within, name))
    if "properties" in schema:
        return {name: filled(part, known, within) for name, part in schema["properties"].items()}
    inner = schema.get("additionalProperties") or schema.get("items")
    if isinstance(inner, dict):
        made = filled(inner, known, within)
        return [made] if "items" in schema else {"a": made}
    kinds = schema.get("type") or ("string" if "oneOf" in schema else "object")
    plain = {"integer": 1, "number": 1, "boolean": True, "object": {}}
    kind = next((one for one in plain if one in kinds), "")
    return plain.get(kind, "2026-01-01T00:00:00Z" if schema.get("format") == "date-time" else "1")


def type_of(schema: Mapping[str, Any]) -> str:
    """The full name of the type in a field, or of the parts of its list or map; empty for plain values."""
    for part in (schema, schema.get("items"), schema.get("additionalProperties")):
        if isinstance(part, dict) and "$ref" in part:
            return str(part["$ref"]).rpartition("/")[2]
    return ""
