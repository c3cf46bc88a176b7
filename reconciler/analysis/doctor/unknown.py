"""Reports fields that the API does not have; servers drop them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args, get_origin

from reconciler.analysis.doctor import rules
from reconciler.analysis.doctor.findings import Finding, suggestion
from reconciler.analysis.doctor.input import DoctorInput
from reconciler.api.koordinator.device import Device as Machine
from reconciler.api.koordinator.device import DeviceInfo
from reconciler.api.objects.claims import DeviceClass, ResourceClaim, ResourceClaimTemplate, TemplateMetadata
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.meta import ObjectMeta
from reconciler.api.objects.model import fields_of
from reconciler.api.objects.requests import DeviceSubRequest, ExactDeviceRequest
from reconciler.api.objects.slices import Device, ResourceSlice, ResourceSliceSpec
from reconciler.api.objects.taint_rules import DeviceTaintRule

_UNREAD: Final[Mapping[type, frozenset[str]]] = {
    Device: frozenset({"nodeAllocatableResources", "nodeAllocatableResourceMappings"}),
    ResourceSliceSpec: frozenset({"partitionTypeAttribute"}),
    DeviceSubRequest: frozenset({"derivedAttributes"}),
    ExactDeviceRequest: frozenset({"derivedAttributes"}),
    DeviceInfo: frozenset({"moduleID", "conditions"}),
    **dict.fromkeys(
        (ResourceSlice, ResourceClaim, ResourceClaimTemplate, DeviceClass, DeviceTaintRule, Machine),
        frozenset({"apiVersion", "status"}),
    ),
}
"""Fields of the API that our models do not have"""
_LOOSE = (ObjectMeta, TemplateMetadata)
"""Models with only some of the fields of the API; they are not checked"""


def unknown_fields(data: DoctorInput) -> Iterator[Finding]:
    """Misspelled and misplaced fields; each name is reported once for an object."""
    for entry in data.entries:
        if isinstance(entry.object, Node | Pod):
            continue
        reported: set[str] = set()
        for path, key, known in unknown_in(type(entry.object), entry.raw, ""):
            if key not in reported:
                reported.add(key)
                what = f"the API has no field {key} here{suggestion(key, known)}"
                yield rules.UNKNOWN_FIELD.finding(entry, path, what)


def unknown_in(model: type, raw: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Path and name of each unknown field of an object of `model`, and the known names there."""
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
                yield from unknown_in(model, one, f"{path}[{number}]")
    elif isinstance(value, Mapping) and get_origin(annotation) is dict:
        for key, one in value.items():
            if isinstance(one, Mapping):
                yield from unknown_in(model, one, f"{path}[{key}]")
    elif isinstance(value, Mapping):
        yield from unknown_in(model, value, path)


def _model(annotation: Any) -> type | None:
    """The model in `Model`, `Model | None`, or a tuple or map of models."""
    if isinstance(annotation, type) and fields_of(annotation):
        return annotation
    return next(filter(None, map(_model, get_args(annotation))), None)
