"""The fields that types of Kubernetes have, and the schemas of all kinds as kubectl reads them."""

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from reconciler.api.validation.bodies import MAX_DEPTH, DoubledKeys, bad_request, invalid
from reconciler.api.validation.fields import Cause, Field, WrongType, time
from reconciler.api.validation.kinds import GroupVersion, Merge, Object, ServedKind
from reconciler.api.validation.kinds import Schema as MergeRules
from reconciler.embedded.descriptions import description_of

LIST = re.compile(r"list\[(?P<of>.+)\]")
MAP = re.compile(r"dict\(str, (?P<of>.+)\)")
_TABLES = ("openapi_types", "attribute_map")
_TABLE = r"^    {} = (\{{.*?\}})$"
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

NEWER: Mapping[str, Mapping[str, str]] = {
    "ClusterTrustBundleProjection": {"user": "int"},
    "ConfigMapVolumeSource": {"defaultUser": "int"},
    "CSINode": {"status": "object"},
    "Device": {"nodeAllocatableResources": "dict(str, object)"},
    "BasicDevice": {"nodeAllocatableResources": "dict(str, object)"},
    "DeviceCounterConsumption": {"compatibilityGroups": "list[str]"},
    "DeviceRequest": {"derivedAttributes": "list[object]"},
    "DeviceRequestAllocationResult": {"skipNodeOperations": "list[str]"},
    "DeviceSubRequest": {"derivedAttributes": "list[object]"},
    "DownwardAPIVolumeFile": {"user": "int"},
    "DownwardAPIVolumeSource": {"defaultUser": "int"},
    "EmptyDirVolumeSource": {"mode": "int"},
    "ExactDeviceRequest": {"derivedAttributes": "list[object]"},
    "GRPCAction": {"mode": "str"},
    "HTTPGetAction": {"protocol": "str"},
    "KeyToPath": {"user": "int"},
    "NodeAllocatableResourceClaimStatus": {"mapping": "list[object]", "overhead": "list[object]"},
    "NodeSpec": {"podPreemptionPolicy": "object"},
    "NodeSystemInfo": {"runningInUserNamespace": "bool"},
    "PersistentVolumeClaimStatus": {"healthStatus": "object"},
    "PodCertificateProjection": {"user": "int"},
    "PodSpec": {"evictionResponders": "list[object]"},
    "PodStatus": {"volumeHealth": "list[object]"},
    "ProjectedVolumeSource": {"defaultUser": "int"},
    "ResourceSliceSpec": {"partitionTypeAttribute": "str", "skipNodeOperations": "list[str]"},
    "SecretVolumeSource": {"defaultUser": "int"},
    "ServiceAccountTokenProjection": {"user": "int"},
    "VolumeMount": {"bindMountOptions": "list[str]"},
}
"""Fields of Kubernetes 1.37, by the name of the model without its version. What is in new types is not
checked."""
PROPOSED: Mapping[str, Mapping[str, str]] = {
    "Device": {"compatibleOnlyWith": "object"},
    "BasicDevice": {"compatibleOnlyWith": "object"},
    "ResourceSliceSpec": {"sharingAffinity": "list[object]"},
    "Counter": {"requestPolicy": "object", "valueFrom": "object"},
    "DeviceRequestAllocationResult": {"consumedCounters": "list[object]"},
}
"""Fields of proposals and previews that are served here and nowhere else, so that they can be tried"""
RELEASE_OF_NEWER = 37
VERSION = re.compile(r"V\d+((alpha|beta)\d+)?")


@cache
def _folder() -> Path:
    found = find_spec("kubernetes_asyncio")
    folder = Path(found.origin or "").parent / "client" / "models" if found is not None else Path()
    if not (folder / "v1_object_meta.py").is_file():
        raise RuntimeError(f"kubernetes-asyncio has no source of its models in {folder}; reinstall it")
    return folder


@cache
def fields_of(model: str, *, newer: bool = True) -> Mapping[str, str] | None:
    """Name -> type of the fields of a model, in the words of the library; None if it has no such model.

    `newer`: with those of Kubernetes 1.37.
    """
    path = _folder() / f"{_WORD.sub('_', model).lower()}.py"
    if not path.is_file():
        return None
    text = path.read_text("utf-8")
    tables = [re.search(_TABLE.format(table), text, re.MULTILINE | re.DOTALL) for table in _TABLES]
    types, names = (ast.literal_eval(table[1]) if table is not None else {} for table in tables)
    if not types or types.keys() != names.keys():
        raise RuntimeError(f"{path} has no {' and '.join(_TABLES)} as known; install the locked version")
    found = {names[attribute]: kind for attribute, kind in types.items()}
    if "basic" not in found:
        found |= PROPOSED.get(VERSION.sub("", model, count=1), {})
    return {**found, **newer_fields(model, found)} if newer else found


def newer_fields(model: str, names: Collection[str]) -> Mapping[str, str]:
    """The fields of Kubernetes 1.37 that a model with some names of fields lacks."""
    if "exactly" in names or "basic" in names:
        return {}  # what else such a request or device has is in an object of its own
    return NEWER.get(VERSION.sub("", model, count=1), {})


@cache
def model_of(served: GroupVersion, kind: str) -> str:
    """The name of the model of a kind; "" for custom resources and for newer kinds."""
    if served.is_custom:
        return ""
    version, short = served.version.capitalize(), (served.group.partition(".")[0] or "core").capitalize()
    # Names that two groups share start with the group.
    names = (f"{short}{version}{kind}", f"{version}{kind}")
    return next((name for name in names if fields_of(name) is not None), "")


def model_of_kind(served: GroupVersion, kind: ServedKind) -> str:
    """The model of a kind: of this version, or else of another version of the same shape."""
    shape = kind.conversions.get(served)
    same = (other for other in kind.served if kind.conversions.get(other) is shape)
    return next(filter(None, (model_of(other, kind.kind) for other in (served, *same))), "")


class Decoded(NamedTuple):
    """A body with the fields of its type, and what is wrong with it in the words of an API server."""

    body: Any
    wrong: list[str]


def known(body: Any, model: str, *, newer: bool) -> Decoded:
    """The body without fields that its type does not have; all of it if `model` is empty. Raises WrongType
    for a value of another shape than its field.
    """
    wrong: list[str] = []
    return Decoded(_known(body, model or "object", "", wrong, 0, newer=newer), wrong)


class _Type(NamedTuple):
    """What a value may be."""

    shape: str
    """Empty: anything"""
    of: str
    """The type of its entries that are in no field"""
    fields: Mapping[str, str] | None


_ARRAY, _OBJECT, _SINGLE = "an array", "an object", "a single value"
_SHAPES: Mapping[type, str] = {
    list: _ARRAY, dict: _OBJECT, DoubledKeys: _OBJECT,
    bool: "a bool", int: "an integer", float: "a number", str: "a string",
}  # fmt: skip
_EXACT = {"bool": "a bool", "int": "an integer"}
"""Types of single values that say what is in JSON: a quantity is a `str`, and may be a number there"""
_AMOUNTS = {
    "allocatable", "allocatedResources", "capacity", "consumedCapacity", "hard", "limits", "overhead",
    "podFixed", "requests", "resources", "used",
}  # fmt: skip
"""The fields with texts by name that are quantities"""


@cache
def _type_of(kind: str, *, newer: bool) -> _Type:
    fields = fields_of(kind, newer=newer)
    if match := LIST.fullmatch(kind):
        return _Type(_ARRAY, match["of"], None)
    if match := MAP.fullmatch(kind):
        return _Type(_OBJECT, match["of"], None)
    shape = "" if kind == "object" else _EXACT.get(kind, _SINGLE) if fields is None else _OBJECT
    return _Type(shape, "object", fields)


def _known(value: Any, kind: str, path: str, wrong: list[str], depth: int, *, newer: bool) -> Any:
    if depth > MAX_DEPTH:
        raise bad_request(f"exceeded max depth of {MAX_DEPTH}")
    wanted, of, fields = _type_of(kind, newer=newer)
    given = wanted if value is None else _SHAPES.get(type(value), _SINGLE)
    if wanted and given != wanted and (wanted != _SINGLE or given in (_ARRAY, _OBJECT)):
        raise WrongType(f"{path}: expected {wanted}, got {given}")
    if kind == "datetime":
        time(Field(value, path))
    if not isinstance(value, list | dict):
        return value
    no_text = None  # what null means among texts
    if of == "str":
        no_text = "0" if path.rpartition(".")[2] in _AMOUNTS else ""
    if isinstance(value, list):
        return [
            no_text if one is None else _known(one, of, f"{path}[{at}]", wrong, depth + 1, newer=newer)
            for at, one in enumerate(value)
        ]
    dot = f"{path}." if path else ""
    if isinstance(value, DoubledKeys):
        wrong += [f'duplicate field "{dot}{key}"' for key in value.keys_of_several]
    kept = {}
    for key, inner in value.items():
        if fields is not None and key not in fields:
            wrong.append(f'unknown field "{dot}{key}"')
        elif fields is None and inner is None:
            kept[key] = no_text
        else:
            type_of = of if fields is None else fields[key]
            # The former are large, and read with care where they are used; most others are texts.
            is_known = key == "managedFields" or (type_of == "str" and type(inner) is str)
            kept[key] = (
                inner if is_known else _known(inner, type_of, f"{dot}{key}", wrong, depth + 1, newer=newer)
            )
    return kept


class FieldValidation(NamedTuple):
    """What a request wants done about fields that are unknown or there twice."""

    directive: str
    """Strict, Warn or Ignore"""
    newer: bool
    """Whether fields of Kubernetes 1.37 are known"""
    warnings: list[str]
    """What the response has to say"""

    def created(self, body: Any, served: GroupVersion, kind: ServedKind) -> Any:
        """The body of a new or whole object without unknown fields. Raises a 400 if the request is strict."""
        found = known(body, model_of_kind(served, kind), newer=self.newer)
        return self.judged(found, lambda why: bad_request(_unusable(served, kind, why)))

    def patched(self, change: Callable[[Any], Any], served: GroupVersion, kind: ServedKind) -> Any:
        """A patch whose result is without unknown fields. It raises a 422 if the request is strict."""

        def checked(shown: Any) -> Any:
            try:
                found = known(change(shown), model_of_kind(served, kind), newer=self.newer)
            except WrongType as exc:
                raise _unusable_patch(str(exc)) from exc
            return self.judged(found, _unusable_patch)

        return checked

    def judged(self, found: Decoded, refusal: Callable[[str], Exception]) -> Any:
        """The body, after what is wrong with it has been noted or raised."""
        if found.wrong and self.directive == "Strict":
            raise refusal(f"strict decoding error: {', '.join(found.wrong)}")
        if self.directive == "Warn":
            self.warnings.extend(found.wrong)
        return found.body

    def headers(self) -> Iterator[str]:
        """The values of the header Warning."""
        for text in self.warnings:
            escaped = text.replace("\\", "\\\\").replace('"', '\\"')
            yield f'299 - "{escaped}"'


def _unusable(served: GroupVersion, kind: ServedKind, why: str) -> str:
    return f'{kind.kind} in version "{served.version}" cannot be handled as a {kind.kind}: {why}'


def _unusable_patch(why: str) -> Exception:
    return invalid("", "", "", [Cause("FieldValueInvalid", f"Invalid value: {why}", "patch")])


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
    schema = {"type": "object", "properties": properties, **({"required": required} if required else {})}
    return {**schema, "description": words} if (words := description_of(model)) else schema


@cache
def field_models(model: str) -> Mapping[str, str]:
    """The model of each field that holds objects of one, also in lists and maps."""
    found = {name: _innermost(kind) for name, kind, _, _ in _fields(model)}
    return {name: kind for name, kind in found.items() if kind not in _PLAIN}


def _fields(model: str) -> Iterator[tuple[str, str, str, bool]]:
    """Name, type, description, and whether it is required, of each field."""
    cls = getattr(_client().models, model)
    blank = _blank(cls)
    for attribute, name in sorted(cls.attribute_map.items(), key=lambda item: item[1]):
        words = (getattr(cls, attribute).__doc__ or "").partition("# noqa: E501")[2]
        words = words.partition(":return:")[0].replace("# noqa: E501", "")
        yield name, cls.openapi_types[attribute], " ".join(words.split()), _refuses_none(blank, attribute)
    for name, kind in newer_fields(model, cls.attribute_map.values()).items():
        yield name, kind, description_of(f"{model}.{name}"), False


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


GVK = "x-kubernetes-group-version-kind"
ANY_FIELDS = "x-kubernetes-preserve-unknown-fields"
Served = tuple[GroupVersion, ServedKind]

_METADATA = "V1ObjectMeta"
_UNKNOWN: Object = {
    "type": "object",
    "properties": {
        "apiVersion": {"type": "string", "description": description_of(".apiVersion")},
        "kind": {"type": "string", "description": description_of(".kind")},
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
