"""The input of all checks: documents as written, their objects, and a snapshot of all objects."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import numpy as np
from msgspec import Struct

from reconciler.api.manifests.bundle import Entry, bundle, with_own_uid
from reconciler.api.manifests.documents import Document, Origin, Refusal
from reconciler.api.objects.claims import DeviceClass, ResourceClaim
from reconciler.api.objects.core import Node
from reconciler.api.objects.meta import ApiObject, PoolID
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import Device, DeviceTaintRule, ResourceSlice
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.trial import store_of

T = TypeVar("T", bound=ApiObject)
_IN_SNAPSHOT = (ResourceSlice, DeviceClass, ResourceClaim, Node, DeviceTaintRule)

Slices = list[tuple[Entry, ResourceSlice]]


class ReadDocument(Struct, frozen=True):
    """A document, and its object if it is valid."""

    document: Document
    entry: Entry | None


class DoctorInput(Struct, frozen=True):
    """The input of all checks."""

    documents: tuple[ReadDocument, ...]
    refused: tuple[Refusal, ...]
    warnings: tuple[tuple[Origin, str], ...]
    """Mistakes that were fixed while reading"""
    snapshot: Snapshot
    """With all slices, also those with duplicate names"""
    slice_entries: Mapping[str, Entry]
    """Name in `snapshot` -> the slice as it was read"""

    @property
    def entries(self) -> Iterator[Entry]:
        """All valid objects, in order."""
        return (one.entry for one in self.documents if one.entry is not None)

    def of(self, model: type[T]) -> Iterator[tuple[Entry, T]]:
        """All objects of one kind."""
        return ((entry, entry.object) for entry in self.entries if isinstance(entry.object, model))

    def pools(self) -> Mapping[PoolID, Slices]:
        """The slices of each pool, in the order in which they were read."""
        found: dict[PoolID, Slices] = {}
        for entry, source in self.of(ResourceSlice):
            found.setdefault(source.pool_id, []).append((entry, source))
        return found

    def device(self, row: int) -> tuple[Entry, str, Device]:
        """The slice, the path in it, and the device in a row of the snapshot's fleet."""
        fleet = self.snapshot.fleet
        at = int(fleet.pool_of[row])
        pool, local = fleet.pools[at], row - int(fleet.start[at])
        block = int(np.searchsorted(pool.offsets, local, side="right")) - 1
        index = local - int(pool.offsets[block])
        source = pool.blocks[block].source()
        return self.slice_entries[source.key.name], f"spec.devices[{index}]", source.spec.devices[index]


def read_input(found: Iterable[Document | Refusal], rules: Semantics) -> DoctorInput:
    """Read documents. Invalid content is never raised; it goes to `refused`."""
    written: list[ReadDocument] = []
    refused: list[Refusal] = []
    warnings: list[tuple[Origin, str]] = []
    for document in found:
        if isinstance(document, Refusal):
            refused.append(document)
            continue
        # One bundle for each document: a common bundle would reject the second object of a name.
        one = bundle([document])
        refused += one.refused
        warnings += [(document.origin, line.removeprefix(f"{document.origin}: ")) for line in one.warnings]
        entries = [entry for of_kind in one.entries.values() for entry in of_kind.values()]
        written.append(ReadDocument(document, entries[0] if entries else None))
    snapshot, slices = _snapshot([one.entry for one in written if one.entry is not None], rules)
    return DoctorInput(tuple(written), tuple(refused), tuple(warnings), snapshot, slices)


def _snapshot(entries: Iterable[Entry], rules: Semantics) -> tuple[Snapshot, dict[str, Entry]]:
    objects: list[ApiObject] = []
    slices: dict[str, Entry] = {}
    for number, entry in enumerate(entries):
        thing = entry.object
        if not isinstance(thing, _IN_SNAPSHOT):
            continue
        if isinstance(thing, ResourceSlice):
            name = thing.key.name if thing.key.name not in slices else f"{thing.key.name} ({number})"
            slices[name] = entry
            metadata = thing.metadata.model_copy(update={"name": name})
            thing = thing.model_copy(update={"metadata": metadata})
        elif isinstance(thing, ResourceClaim):
            thing = with_own_uid(thing)
        objects.append(thing)
    return store_of(objects, rules).snapshot(), slices
