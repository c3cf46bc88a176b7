"""Checks of documents as they are written: unreadable, old, unrendered, duplicate, or with unknown fields."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args, get_origin

from reconciler.analysis.doctor import findings
from reconciler.analysis.doctor.findings import DoctorInput, Finding, suggestion
from reconciler.api.manifests.bundle import already_read
from reconciler.api.manifests.documents import Origin
from reconciler.api.objects.claims import (
    DeviceClass,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimTemplate,
    TemplateMetadata,
)
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.meta import ObjectKey, ObjectMeta
from reconciler.api.objects.model import fields_of
from reconciler.api.objects.slices import Device, DeviceTaintRule, ResourceSlice, ResourceSliceSpec
from reconciler.api.objects.validating import subject_of
from reconciler.api.versions.kinds import RESOURCE
from reconciler.api.versions.shapes import mappings


def unreadable(data: DoctorInput) -> Iterator[Finding]:
    """Invalid documents and objects."""
    for refusal in data.refused:
        problem = refusal.problem
        subject = problem.subject.removeprefix(f"{refusal.origin}: ")
        if subject.startswith(refusal.origin.file):  # there is no object; the subject is a place
            subject = "document"
        yield findings.UNREADABLE.finding_at(refusal.origin, subject, problem.field, problem.reason)


def put_right(data: DoctorInput) -> Iterator[Finding]:
    """Mistakes that were fixed while reading, but that an API server rejects."""
    for origin, line in data.warnings:
        subject, _, rest = line.partition(": ")
        field, colon, what = rest.partition(": ")
        if not colon or " " in field:
            field, what = "", rest
        yield findings.PUT_RIGHT.finding_at(origin, subject, field, what)


def old_version(data: DoctorInput) -> Iterator[Finding]:
    """Objects of API versions before v1."""
    for one in data.documents:
        given = str(one.document.raw.get("apiVersion"))
        if one.entry is not None and given.startswith(f"{RESOURCE}/") and given != f"{RESOURCE}/v1":
            yield findings.OLD_VERSION.finding(
                one.entry, "apiVersion", f"{given} is older than {RESOURCE}/v1"
            )


def duplicate_object(data: DoctorInput) -> Iterator[Finding]:
    """Objects of the same kind and name."""
    first: dict[tuple[str, ObjectKey], Origin] = {}
    for entry in data.entries:
        earlier = first.setdefault((type(entry.object).__name__, entry.object.key), entry.origin)
        if earlier is not entry.origin:
            yield findings.DUPLICATE_OBJECT.finding(entry, "metadata.name", already_read(earlier))


def unrendered(data: DoctorInput) -> Iterator[Finding]:
    """Template actions that are not rendered; reported once for each object."""
    for one in data.documents:
        if not str(one.document.raw.get("kind")).startswith(("Resource", "Device", "Pod")):
            continue
        for path, text in _values(one.document.raw, ""):
            if isinstance(text, str) and "{{" in text:
                subject = subject_of(one.document.raw)
                yield findings.UNRENDERED.finding_at(
                    one.document.origin, subject, path, f"holds {text[:80]!r}"
                )
                break


def claim_sources(data: DoctorInput) -> Iterator[Finding]:
    """`source` in the resource claims of a pod template; servers dropped it in 1.31."""
    for one in data.documents:
        for path, value in _values(one.document.raw, ""):
            if not path.endswith("resourceClaims") or one.document.raw.get("kind") == "Pod":
                continue
            for number, entry in enumerate(mappings(value)):
                if "source" in entry:
                    subject, field = subject_of(one.document.raw), f"{path}[{number}].source"
                    yield findings.CLAIM_SOURCE.finding_at(
                        one.document.origin, subject, field, "was removed in 1.31"
                    )


def _values(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every nested value, with its path."""
    yield path, value
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _values(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _values(part, f"{path}[{number}]")


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
"""Fields of the API that our models do not have; models of plugins name theirs in `UNREAD`"""
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
                yield findings.UNKNOWN_FIELD.finding(entry, path, what)


def unknown_in(model: type, raw: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Path and name of each unknown field of an object of `model`, and the known names there."""
    fields = {field.alias or name: field for name, field in fields_of(model).items()}
    known = frozenset(fields) | _UNREAD.get(model, frozenset()) | getattr(model, "UNREAD", frozenset())
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
