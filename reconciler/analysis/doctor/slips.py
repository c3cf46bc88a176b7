"""Checks for frequent mistakes in templates and pods."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.analysis.doctor import rules
from reconciler.analysis.doctor.findings import Finding
from reconciler.analysis.doctor.input import DoctorInput
from reconciler.api.objects.validating import subject_of
from reconciler.api.versions.shapes import mappings


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


def _values(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every nested value, with its path."""
    yield path, value
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _values(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _values(part, f"{path}[{number}]")
