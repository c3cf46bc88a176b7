"""The schemas of all kinds, as kubectl reads them: those of Kubernetes' own types from the models of
kubernetes-asyncio, those of custom resources from their declarations.

The models are imported on first use: they take seconds and tens of megabytes, and most servers publish
no schema.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from reconciler.api.validation.kinds import GroupVersion, Merge, Object, ServedKind
from reconciler.api.validation.kinds import Schema as MergeRules
from reconciler.embedded.known_fields import LIST, MAP, VERSION, model_of_kind, newer_fields

REF = "#/components/schemas/"
_PLAIN: Mapping[str, Object] = {
    "str": {"type": "string"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "datetime": {"type": "string", "format": "date-time"},
    # Any JSON: without a type, kubectl accepts every value.
    "object": {},
}

_NAME = re.compile(rf"(?P<group>[A-Z][a-z]+)?(?P<version>{VERSION.pattern})(?P<kind>[A-Z].*)")


def reference(model: str) -> str:
    """The schema's name: kubectl shows what follows the last dot."""
    parts = _NAME.fullmatch(model)
    if parts is None:
        return model
    return f"{parts['group'] or ''}.{parts['version']}.".lower().lstrip(".") + parts["kind"]


@cache
def schema_of(model: str) -> Object:
    """The schema of one model. References name other models. Must not be modified."""
    properties = {name: _property(kind, words) for name, kind, words, _ in _fields(model)}
    required = [name for name, _, _, is_required in _fields(model) if is_required]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


@cache
def field_models(model: str) -> Mapping[str, str]:
    """The model of each field that holds objects of one, also in lists and maps."""
    found = {name: _innermost(kind) for name, kind, _, _ in _fields(model)}
    return {name: kind for name, kind in found.items() if kind not in _PLAIN}


def _fields(model: str) -> Iterator[tuple[str, str, str, bool]]:
    """Name, type, description, and whether it is required, of each field."""
    cls = getattr(_models(), model)
    blank = _blank(cls)
    for attribute, name in sorted(cls.attribute_map.items(), key=lambda item: item[1]):
        words = (getattr(cls, attribute).__doc__ or "").partition("# noqa: E501")[2]
        words = words.partition(":return:")[0].replace("# noqa: E501", "")
        yield name, cls.openapi_types[attribute], " ".join(words.split()), _refuses_none(blank, attribute)
    for name, kind in newer_fields(model, cls.attribute_map.values()).items():
        yield name, kind, "", False


def _blank(cls: Any) -> Any:
    """An instance without values, whose setters check what they are given."""
    blank = cls.__new__(cls)
    blank.local_vars_configuration = _client().Configuration()
    return blank


def _refuses_none(blank: Any, attribute: str) -> bool:
    try:
        setattr(blank, attribute, None)
    except ValueError:
        return True
    return False


def _property(kind: str, words: str) -> Object:
    described = {"description": words} if words else {}
    if match := LIST.fullmatch(kind):
        return {"type": "array", "items": _property(match["of"], ""), **described}
    if match := MAP.fullmatch(kind):
        return {"type": "object", "additionalProperties": _property(match["of"], ""), **described}
    if kind in _PLAIN:
        return {**_PLAIN[kind], **described}
    ref = {"$ref": REF + reference(kind)}
    # Beside a reference, OpenAPI v3 ignores everything else.
    return {"allOf": [ref], **described} if described else ref


def _innermost(kind: str) -> str:
    while match := LIST.fullmatch(kind) or MAP.fullmatch(kind):
        kind = match["of"]
    return kind


@cache
def _client() -> Any:
    import kubernetes_asyncio.client  # noqa: PLC0415

    return kubernetes_asyncio.client


def _models() -> Any:
    return _client().models


GVK = "x-kubernetes-group-version-kind"
ANY_FIELDS = "x-kubernetes-preserve-unknown-fields"
Served = tuple[GroupVersion, ServedKind]

_METADATA = "V1ObjectMeta"
_UNKNOWN: Object = {
    "type": "object",
    "properties": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"$ref": REF + reference(_METADATA)},
    },
    ANY_FIELDS: True,
}
"""The schema of kinds that are not part of Kubernetes: every field is allowed."""


def definitions(served: Iterable[Served]) -> Mapping[str, Object]:
    """Schemas by name: those of the kinds, and of everything that they refer to. `served` has no doubles."""
    found: dict[str, Object] = {}
    for version, kind in served:
        model = model_of_kind(version, kind)
        name = model or f"{kind.kind}.{version.version}.{version.group}"
        if model:
            _add(found, model)
            _mark(found, model, kind.strategic)
        else:
            _add(found, _METADATA)
            found[name] = {**_UNKNOWN}
        if kind.description:
            found[name]["description"] = kind.description
        found[name].setdefault(GVK, []).append(group_version_kind(version, kind))
    return {reference(name): schema for name, schema in found.items()}


def group_version_kind(version: GroupVersion, kind: ServedKind) -> Object:
    """The value of the extension that connects schemas, operations and kinds."""
    return {"group": version.group, "version": version.version, "kind": kind.kind}


def _add(found: dict[str, Object], model: str) -> None:
    if model in found:
        return
    schema = schema_of(model)
    found[model] = {**schema, "properties": dict(schema["properties"])}
    for other in field_models(model).values():
        _add(found, other)


def _mark(found: dict[str, Object], model: str, rules: MergeRules) -> None:
    """Note how strategic merge patches merge lists: kubectl apply makes its patches by these notes."""
    properties, models = found[model]["properties"], field_models(model)
    for name, rule in rules.items():
        inner: MergeRules = rule
        if isinstance(rule, Merge):
            key = {"x-kubernetes-patch-merge-key": rule.key} if rule.key else {}
            properties[name] = {**properties[name], "x-kubernetes-patch-strategy": "merge", **key}
            inner = rule.of
        if name in models:
            _mark(found, models[name], inner)
