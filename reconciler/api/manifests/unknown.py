"""Finds fields and kinds that no release has, each with the name that was probably meant."""

from collections.abc import Iterable, Iterator

from reconciler.api.manifests.bundle import Bundle
from reconciler.api.manifests.documents import InvalidDocument, invalid_document
from reconciler.api.objects.similar_names import closest
from reconciler.api.objects.validating import subject_of
from reconciler.api.versions.ignored import unknown_in
from reconciler.api.versions.kinds import NAMES, RESOURCE, is_newer


def unknown_parts(found: Bundle) -> Iterator[InvalidDocument]:
    """The fields and kinds of all objects."""
    yield from _unknown_fields(found)
    yield from _unknown_kinds(found)


def _unknown_fields(found: Bundle) -> Iterator[InvalidDocument]:
    """The first unknown field of each name in each object."""
    for entry in (entry for of_kind in found.entries.values() for entry in of_kind.values()):
        names: set[str] = set()
        for path, name, known in unknown_in(type(entry.object), entry.raw):
            if name not in names:
                names.add(name)
                reason = f"no release has this field{_meant(name, known)}"
                yield invalid_document(entry.origin, subject_of(entry.raw), path, reason)


def _unknown_kinds(found: Bundle) -> Iterator[InvalidDocument]:
    """Objects of the group of devices with a kind that no release has."""
    known = sorted(kind for group, kind in NAMES if group == RESOURCE)
    for document in found.others.values():
        group, kind = str(document.raw.get("apiVersion")).rpartition("/")[0], str(document.raw.get("kind"))
        if group == RESOURCE and is_newer(group, kind):
            reason = f"no release has this kind{_meant(kind, known)}"
            yield invalid_document(document.origin, subject_of(document.raw), "kind", reason)


def _meant(name: str, known: Iterable[str]) -> str:
    close = closest(name, known, most=1, cutoff=0.75)
    return f"; did you mean {close[0]}?" if close else ""
