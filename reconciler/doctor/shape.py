"""What could not be read, what was put right, and objects that replace each other."""

from collections.abc import Iterator

from reconciler.doctor import rules
from reconciler.doctor.findings import Finding
from reconciler.doctor.picture import Picture
from reconciler.legacy.reading import GROUP
from reconciler.manifests.origin import Origin
from reconciler.objects.meta import ObjectKey


def unreadable(picture: Picture) -> Iterator[Finding]:
    """Documents and objects that were refused."""
    for refusal in picture.refused:
        problem = refusal.problem
        subject = problem.subject.removeprefix(f"{refusal.origin}: ")
        if subject.startswith(refusal.origin.file):  # no object yet: the place stands for it
            subject = "document"
        yield rules.UNREADABLE.at(refusal.origin, subject, problem.field, problem.reason)


def put_right(picture: Picture) -> Iterator[Finding]:
    """What readers here understand though an API server does not."""
    for origin, line in picture.warnings:
        subject, _, rest = line.partition(": ")
        field, colon, what = rest.partition(": ")
        if not colon or " " in field:
            field, what = "", rest
        yield rules.PUT_RIGHT.at(origin, subject, field, what)


def old_version(picture: Picture) -> Iterator[Finding]:
    """Objects of versions before v1."""
    for one in picture.written:
        given = str(one.document.raw.get("apiVersion"))
        if one.entry is not None and given.startswith(f"{GROUP}/") and given != f"{GROUP}/v1":
            yield rules.OLD_VERSION.found(one.entry, "apiVersion", f"{given} is older than {GROUP}/v1")


def duplicate_object(picture: Picture) -> Iterator[Finding]:
    """Objects of one kind and name."""
    first: dict[tuple[str, ObjectKey], Origin] = {}
    for entry in picture.entries:
        earlier = first.setdefault((type(entry.object).__name__, entry.object.key), entry.origin)
        if earlier is not entry.origin:
            yield rules.DUPLICATE_OBJECT.found(entry, "metadata.name", f"is also in {earlier}")
