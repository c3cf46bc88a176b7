"""The fields that types of Kubernetes have: what a body has beside them is dropped, with a warning or an
error.

The types are read from the text of the models of kubernetes-asyncio: to import these takes seconds.
"""

import ast
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from reconciler.api.validation.bodies import MAX_DEPTH, DoubledKeys, bad_request, invalid
from reconciler.api.validation.fields import Cause, WrongType
from reconciler.api.validation.kinds import GroupVersion, ServedKind

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
    if isinstance(value, list):
        return [
            _known(one, of, f"{path}[{at}]", wrong, depth + 1, newer=newer) for at, one in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    dot = f"{path}." if path else ""
    if isinstance(value, DoubledKeys):
        wrong += [f'duplicate field "{dot}{key}"' for key in value.keys_of_several]
    kept = {}
    for key, inner in value.items():
        if fields is not None and key not in fields:
            wrong.append(f'unknown field "{dot}{key}"')
        else:
            type_of = of if fields is None else fields[key]
            kept[key] = _known(inner, type_of, f"{dot}{key}", wrong, depth + 1, newer=newer)
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
            found = known(change(shown), model_of_kind(served, kind), newer=self.newer)
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
