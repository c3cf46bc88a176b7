"""Checks for frequent mistakes in templates, pods and Koordinator's annotations."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.analysis.doctor import rules
from reconciler.analysis.doctor.findings import Finding
from reconciler.analysis.doctor.input import DoctorInput
from reconciler.api.objects.validating import subject_of
from reconciler.api.versions.shapes import mapping, mappings

_KOORDINATOR = "scheduling.koordinator.sh"
_JSON = tuple(
    f"{_KOORDINATOR}/{name}"
    for name in (
        "device-allocate-hint",
        "device-allocated",
        "device-joint-allocate",
        "gpu-partition-spec",
        "gpu-partitions",
    )
)
"""Annotations that hold JSON"""


def unrendered(data: DoctorInput) -> Iterator[Finding]:
    """Template actions that are not rendered; reported once for each object."""
    for one in data.documents:
        if not str(one.document.raw.get("kind")).startswith(("Resource", "Device", "Pod")):
            continue
        for path, text in _values(one.document.raw, ""):
            if isinstance(text, str) and "{{" in text:
                subject = subject_of(one.document.raw)
                yield rules.UNRENDERED.finding_at(one.document.origin, subject, path, f"holds {text[:80]!r}")
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
                    yield rules.CLAIM_SOURCE.finding_at(
                        one.document.origin, subject, field, "was removed in 1.31"
                    )


def koordinator(data: DoctorInput) -> Iterator[Finding]:
    """Annotations that are not JSON, and Devices without a spec."""
    for one in data.documents:
        raw = one.document.raw
        is_device = raw.get("kind") == "Device" and str(raw.get("apiVersion")).startswith(_KOORDINATOR)
        if is_device and not mapping(raw.get("spec")):
            yield rules.KOORDINATOR.finding_at(one.document.origin, subject_of(raw), "spec", "is missing")
        annotations = mapping(mapping(raw.get("metadata")).get("annotations"))
        for name in sorted(annotations.keys() & set(_JSON)):
            try:
                json.loads(str(annotations[name]))
            except (ValueError, RecursionError) as exc:
                field = f"metadata.annotations[{name}]"
                yield rules.KOORDINATOR.finding_at(
                    one.document.origin, subject_of(raw), field, f"is not JSON: {exc}"
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
