"""Reports invalid documents, fixed mistakes, old versions and duplicate objects."""

from collections.abc import Iterator

from reconciler.analysis.doctor import rules
from reconciler.analysis.doctor.findings import Finding
from reconciler.analysis.doctor.input import DoctorInput
from reconciler.api.manifests.bundle import already_read
from reconciler.api.manifests.origin import Origin
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.versions.reading import GROUP


def unreadable(data: DoctorInput) -> Iterator[Finding]:
    """Invalid documents and objects."""
    for refusal in data.refused:
        problem = refusal.problem
        subject = problem.subject.removeprefix(f"{refusal.origin}: ")
        if subject.startswith(refusal.origin.file):  # there is no object; the subject is a place
            subject = "document"
        yield rules.UNREADABLE.finding_at(refusal.origin, subject, problem.field, problem.reason)


def put_right(data: DoctorInput) -> Iterator[Finding]:
    """Mistakes that were fixed while reading, but that an API server rejects."""
    for origin, line in data.warnings:
        subject, _, rest = line.partition(": ")
        field, colon, what = rest.partition(": ")
        if not colon or " " in field:
            field, what = "", rest
        yield rules.PUT_RIGHT.finding_at(origin, subject, field, what)


def old_version(data: DoctorInput) -> Iterator[Finding]:
    """Objects of API versions before v1."""
    for one in data.documents:
        given = str(one.document.raw.get("apiVersion"))
        if one.entry is not None and given.startswith(f"{GROUP}/") and given != f"{GROUP}/v1":
            yield rules.OLD_VERSION.finding(one.entry, "apiVersion", f"{given} is older than {GROUP}/v1")


def duplicate_object(data: DoctorInput) -> Iterator[Finding]:
    """Objects of the same kind and name."""
    first: dict[tuple[str, ObjectKey], Origin] = {}
    for entry in data.entries:
        earlier = first.setdefault((type(entry.object).__name__, entry.object.key), entry.origin)
        if earlier is not entry.origin:
            yield rules.DUPLICATE_OBJECT.finding(entry, "metadata.name", already_read(earlier))
