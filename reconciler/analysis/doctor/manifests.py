"""Checks of documents as they are written: unreadable, old, unrendered, duplicate, or with unknown fields."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.analysis.doctor import findings
from reconciler.analysis.doctor.findings import DoctorInput, Finding
from reconciler.api.manifests.bundle import Entry, already_read
from reconciler.api.manifests.documents import UNRENDERED, Origin
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import GATES, spelled
from reconciler.api.objects.similar_names import suggestion
from reconciler.api.objects.validating import subject_of
from reconciler.api.versions.ignored import GATED, UNUSED, parts_of, unknown_in
from reconciler.api.versions.kinds import NAMES, NOT_FOLLOWED, RESOURCE, is_newer
from reconciler.api.versions.shapes import mappings


def unreadable(data: DoctorInput) -> Iterator[Finding]:
    """Invalid documents and objects."""
    for refusal in data.refused:
        problem = refusal.problem
        subject = problem.subject.removeprefix(f"{refusal.origin}: ")
        if subject.startswith(refusal.origin.file):  # there is no object; the subject is a place
            subject = "document"
        rule = findings.UNRENDERED if problem.reason.startswith(UNRENDERED) else findings.UNREADABLE
        for field, reason in ((problem.field, problem.reason), *problem.others):
            yield rule.finding_at(refusal.origin, subject, field, reason)


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
        for path, text in nested(one.document.raw, ""):
            if isinstance(text, str) and "{{" in text:
                subject = subject_of(one.document.raw)
                yield findings.UNRENDERED.finding_at(
                    one.document.origin, subject, path, f"holds {text[:80]!r}"
                )
                break


def claim_sources(data: DoctorInput) -> Iterator[Finding]:
    """`source` in the resource claims of a pod template; servers dropped it in 1.31."""
    for one in data.documents:
        for path, value in nested(one.document.raw, ""):
            if not path.endswith("resourceClaims") or one.document.raw.get("kind") == "Pod":
                continue
            for number, entry in enumerate(mappings(value)):
                if "source" in entry:
                    subject, field = subject_of(one.document.raw), f"{path}[{number}].source"
                    yield findings.CLAIM_SOURCE.finding_at(
                        one.document.origin, subject, field, "was removed in 1.31"
                    )


def nested(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every nested value, with its path."""
    yield path, value
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from nested(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from nested(part, f"{path}[{number}]")


def unknown_fields(data: DoctorInput) -> Iterator[Finding]:
    """Misspelled, misplaced and newer fields; each name is reported once for an object."""
    for entry in data.entries:
        reported: set[str] = set()
        for path, key, known in unknown_in(type(entry.object), entry.raw):
            if key not in reported:
                reported.add(key)
                what = f"ignored: {key}, which could change the answer{suggestion(key, known)}"
                yield findings.UNKNOWN_FIELD.finding(entry, path, what)


def unused_fields(data: DoctorInput) -> Iterator[Finding]:
    """Fields that Kubernetes uses and this program does not, or not with the gates that are on.

    Each name is reported once for an object.
    """
    for entry in data.entries:
        found = {key: (path, gate) for path, key, gate in _unused_in(data, entry)}
        for key, (path, gate) in found.items():
            if gate and data.snapshot.rules.has(gate):
                yield findings.PREVIEW_FIELD.finding(entry, path, f"{key} belongs to {spelled(gate)}")
                continue
            why = (
                f"which needs the feature gate {spelled(gate)}, and that is off"
                if gate
                else "which could change the answer"
            )
            yield findings.UNUSED_FIELD.finding(entry, path, f"ignored: {key}, {why}")


def unknown_kinds(data: DoctorInput) -> Iterator[Finding]:
    """Kinds of the groups of devices and gangs that are newer than the program."""
    for one in data.documents:
        raw = one.document.raw
        group, _, _ = str(raw.get("apiVersion")).rpartition("/")
        if one.entry is None and is_newer(group, str(raw.get("kind"))):
            what = f"ignored: {raw['kind']} of {raw['apiVersion']}, which could change the answer"
            if raw.get("metadata") != {"name": ""}:  # a server has the kind: it is no slip of the pen
                what += suggestion(raw["kind"], (kind for its, kind in NAMES if its == group))
            if (group, raw["kind"]) in NOT_FOLLOWED:
                what = f"ignored: the devices that a {raw['kind']} keeps count as free"
            yield findings.UNKNOWN_KIND.finding_at(one.document.origin, subject_of(raw), "kind", what)


def _unused_in(data: DoctorInput, entry: Entry) -> Iterator[tuple[str, str, str]]:
    """Path and name of each field of an object that is known and not used, and the gate that it lacks. Fields
    of previews are among them also if their gate is on.
    """
    rules = data.snapshot.rules
    for kind, there, part in parts_of(type(entry.object), entry.raw, ""):
        gated = GATED.get(kind, {}).items()
        off = {key: gate for key, gate in gated if GATES[gate].is_preview or not rules.has(gate)}
        for key, gate in (dict.fromkeys(UNUSED.get(kind, ()), "") | off).items():
            if part.get(key) is not None:
                yield f"{there}.{key}" if there else key, key, gate
