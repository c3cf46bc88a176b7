"""Every object of every kind under one growing version counter."""

from collections.abc import Iterable, Iterator

from reconciler.embedded.kinds import Object, ServedKind
from reconciler.embedded.shelf import Change, Record, Shelf


def key_of(kind: ServedKind, namespace: str, name: str) -> str:
    """Where an object is kept: keys of one namespace are neighbours."""
    return f"{namespace}/{name}" if kind.namespaced else name


class Store:
    """Objects and their history. Knows versions, not rules."""

    def __init__(self, kinds: Iterable[ServedKind], *, history: int) -> None:
        self.version = 0
        """The version of the last write anywhere."""
        self._history = history
        self._shelves: dict[ServedKind, Shelf] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: ServedKind) -> None:
        """Make room for one more kind."""
        self._shelves[kind] = Shelf(kind, self._history)

    def __getitem__(self, kind: ServedKind) -> Shelf:
        return self._shelves[kind]

    def __iter__(self) -> Iterator[Shelf]:
        return iter(self._shelves.values())

    def put(self, kind: ServedKind, key: str, obj: Object) -> Record:
        """Keep `obj` as the current version under `key`. Its metadata is stamped: not shared."""
        shelf = self._shelves[kind]
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        record = Record(kind, key, obj, self.version)
        shelf.apply(Change(record, shelf.get(key), deleted=False))
        return record

    def remove(self, record: Record) -> Record:
        """Delete what is under the record's key; returns the last content as watches show it."""
        shelf = self._shelves[record.kind]
        self.version += 1
        last = record.restamped(self.version)
        shelf.apply(Change(last, shelf.get(record.key), deleted=True))
        return last

    def compact(self) -> None:
        """Forget all history: watches and paged lists from earlier versions get a 410."""
        for shelf in self:
            shelf.compact(0)
