"""Fields that the API does not have, so that a server drops them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args, get_origin

from reconciler.doctor import rules
from reconciler.doctor.findings import Finding, nearest
from reconciler.doctor.picture import Picture
from reconciler.objects.claims import DeviceClass, ResourceClaim, ResourceClaimTemplate, TemplateMetadata
from reconciler.objects.core import Node, Pod
from reconciler.objects.meta import ObjectMeta
from reconciler.objects.model import fields_of
from reconciler.objects.requests import DeviceSubRequest, ExactDeviceRequest
from reconciler.objects.slices import Device, ResourceSlice, ResourceSliceSpec
from reconciler.objects.taintrules import DeviceTaintRule

_UNREAD: Final[Mapping[type, frozenset[str]]] = {
    Device: frozenset({"nodeAllocatableResources", "nodeAllocatableResourceMappings"}),
    ResourceSliceSpec: frozenset({"partitionTypeAttribute"}),
    DeviceSubRequest: frozenset({"derivedAttributes"}),
    ExactDeviceRequest: frozenset({"derivedAttributes"}),
    **dict.fromkeys(
        (ResourceSlice, ResourceClaim, ResourceClaimTemplate, DeviceClass, DeviceTaintRule),
        frozenset({"apiVersion", "status"}),
    ),
}
"""Fields of the API that our models leave out"""
_LOOSE = (ObjectMeta, TemplateMetadata)
"""Models of which we read too little to know what else there is"""


def unknown_fields(picture: Picture) -> Iterator[Finding]:
    """Misspelled and misplaced fields, told once for each name in an object."""
    for entry in picture.entries:
        if isinstance(entry.object, Node | Pod):
            continue
        told: set[str] = set()
        for path, key, known in _unknown(type(entry.object), entry.raw, ""):
            if key not in told:
                told.add(key)
                what = f"{key} is no field that the API has here{nearest(key, known)}"
                yield rules.UNKNOWN_FIELD.found(entry, path, what)


def _unknown(model: type, raw: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Path, name and the names that are known there."""
    fields = {field.alias or name: field for name, field in fields_of(model).items()}
    known = frozenset(fields) | _UNREAD.get(model, frozenset())
    for key, value in raw.items():
        below = f"{path}.{key}" if path else key
        if key not in known:
            yield below, key, known
        elif key in fields:
            yield from _below(fields[key].annotation, value, below)


def _below(annotation: Any, value: Any, path: str) -> Iterator[tuple[str, str, frozenset[str]]]:
    model = _model(annotation)
    if model is None or issubclass(model, _LOOSE):
        return
    if isinstance(value, list):
        for number, one in enumerate(value):
            if isinstance(one, Mapping):
                yield from _unknown(model, one, f"{path}[{number}]")
    elif isinstance(value, Mapping) and get_origin(annotation) is dict:
        for key, one in value.items():
            if isinstance(one, Mapping):
                yield from _unknown(model, one, f"{path}[{key}]")
    elif isinstance(value, Mapping):
        yield from _unknown(model, value, path)


def _model(annotation: Any) -> type | None:
    """The model in `Model`, `Model | None`, a tuple or a map of it."""
    if isinstance(annotation, type) and fields_of(annotation):
        return annotation
    return next(filter(None, map(_model, get_args(annotation))), None)
