"""The result of reading manifests: typed objects by kind, rejected documents, ignored kinds."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO, TypeVar, cast

from msgspec import Struct

from reconciler.api.manifests.documents import Document, Refusal, documents, refuse
from reconciler.api.manifests.origin import Origin
from reconciler.api.objects.core import Namespace
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.storage import STORAGE
from reconciler.api.objects.validating import subject_of
from reconciler.api.validation.pods import with_label_keys
from reconciler.api.versions import reading, shared_parts
from reconciler.errors import Malformed
from reconciler.plugins.koordinator.objects import is_device, read_device

NAMESPACED = (
    *("ResourceClaim", "ResourceClaimTemplate", "Pod", "PodGroup"),
    *("PersistentVolumeClaim", "CSIStorageCapacity", "PodDisruptionBudget"),
)
T = TypeVar("T", bound=ApiObject)


class Entry(Struct, frozen=True):
    """One object, with its source text and place."""

    origin: Origin
    raw: Mapping[str, Any]
    """In the shape of v1, with unknown fields"""
    object: ApiObject
    number: int
    """Its index among all documents"""


class Bundle(Struct, frozen=True):
    """All objects, in the order in which they were read."""

    entries: Mapping[str, Mapping[ObjectKey, Entry]]
    """Name of the model -> key -> entry"""
    refused: tuple[Refusal, ...]
    others: Mapping[int, Document]
    """Index among all documents -> object of a kind that is not read"""
    warnings: tuple[str, ...] = ()
    """Fixed mistakes, with their place"""

    def of(self, model: type[T]) -> tuple[T, ...]:
        """All objects of one kind."""
        found = self.entries.get(model.__name__, {})
        return tuple(cast("T", entry.object) for entry in found.values())

    @property
    def ignored(self) -> Counter[str]:
        """Number of objects of each kind that is not read."""
        return Counter(_kind(document.raw) for document in self.others.values())

    @property
    def size(self) -> int:
        """How many objects were read."""
        return sum(len(found) for found in self.entries.values())


def storage_of(found: Bundle) -> tuple[ApiObject, ...]:
    """The objects that decide where pods with volumes can run."""
    return tuple(entry.object for kind in STORAGE for entry in found.entries.get(kind, {}).values())


def read_bundle(paths: Iterable[str], stdin: BinaryIO) -> Bundle:
    """Read every manifest of `paths`. Invalid content is never raised; it goes to `refused`."""
    return bundle(documents(paths, stdin))


def bundle(found: Iterable[Document | Refusal]) -> Bundle:
    """Sort documents into a bundle: valid objects, invalid documents, ignored kinds."""
    entries: dict[str, dict[ObjectKey, Entry]] = {}
    refused: list[Refusal] = []
    others: dict[int, Document] = {}
    warnings: list[str] = []
    for number, document in enumerate(found):
        if isinstance(document, Refusal):
            refused.append(document)
        elif not reading.is_ours(document.raw) and not is_device(document.raw):
            others[number] = document
        else:
            try:
                entry = _entry(document, number, warnings)
                _enter(entries.setdefault(type(entry.object).__name__, {}), entry)
            except Malformed as exc:
                refused.append(refuse(document.origin, exc.subject, exc.field, exc.reason))
    return Bundle(entries, tuple(refused), others, tuple(warnings))


def _kind(raw: Mapping[str, Any]) -> str:
    """The kind; with its version if another API group uses the name of a kind that we read."""
    return f"{raw['kind']} of {raw.get('apiVersion')}" if raw["kind"] in reading.MODELS else str(raw["kind"])


def _entry(document: Document, number: int, warnings: list[str]) -> Entry:
    if is_device(document.raw):
        raw = _placed(document.raw)
        return Entry(document.origin, raw, read_device(raw), number)
    found: list[str] = []
    raw = reading.to_v1(_placed(document.raw), found)
    if raw["kind"] == "Pod":
        raw = with_label_keys(raw)
    warnings += [f"{document.origin}: {line}" for line in found]
    return Entry(document.origin, raw, shared_parts.typed(raw), number)


def _enter(known: dict[ObjectKey, Entry], entry: Entry) -> None:
    earlier = known.setdefault(entry.object.key, entry)
    if earlier is not entry and not isinstance(entry.object, Namespace):  # many files repeat their namespace
        raise Malformed(subject_of(entry.raw), "metadata.name", already_read(earlier.origin))


def already_read(earlier: Origin) -> str:
    """Why the second object of one kind and name is not used."""
    return f"is also in {earlier}, which is used"


def _placed(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the effective namespace: `default` if a namespaced kind has none; none for other kinds."""
    metadata = raw.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, Mapping):
        return raw
    placed = {key: value for key, value in metadata.items() if key != "namespace"}
    if raw["kind"] in NAMESPACED:
        namespace = metadata.get("namespace")
        placed["namespace"] = "default" if namespace in (None, "") else namespace
    return {**raw, "metadata": placed}
