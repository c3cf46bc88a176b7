"""The objects of all kinds, with one version counter."""

from collections.abc import Iterable, Iterator

from reconciler.api.validation.kinds import Object, ServedKind
from reconciler.embedded.server.kind_store import Change, KindStore, Record


def key_of(kind: ServedKind, namespace: str, name: str) -> str:
    """The key of an object. Keys of one namespace are adjacent in key order."""
    return f"{namespace}/{name}" if kind.namespaced else name


class Store:
    """Objects and their history. Sets versions; applies no rules."""

    def __init__(self, kinds: Iterable[ServedKind], *, history: int) -> None:
        self.version = 0
        """The version of the last write to any kind."""
        self._history = history
        self._stores: dict[ServedKind, KindStore] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: ServedKind) -> None:
        """Add a kind."""
        self._stores[kind] = KindStore(kind, self._history)

    def __getitem__(self, kind: ServedKind) -> KindStore:
        return self._stores[kind]

    def __iter__(self) -> Iterator[KindStore]:
        return iter(self._stores.values())

    def put(self, kind: ServedKind, key: str, obj: Object) -> Record:
        """Store `obj` as the current version of `key`. Sets its resourceVersion: `obj` must not be shared."""
        kind_store = self._stores[kind]
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        record = Record(kind, key, obj, self.version)
        kind_store.apply(Change(record, kind_store.get(key), deleted=False))
        return record

    def remove(self, record: Record) -> Record:
        """Delete the record's object. Returns its last content as watches show it."""
        kind_store = self._stores[record.kind]
        self.version += 1
        last = record.restamped(self.version)
        kind_store.apply(Change(last, kind_store.get(record.key), deleted=True))
        return last

    def compact(self) -> None:
        """Drop all history: watches and paged lists from earlier versions get a 410."""
        for kind_store in self:
            kind_store.compact(0)
