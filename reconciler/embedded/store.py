"""The objects of all kinds, with one version counter; their history, and the watches that wait for the next
change.
"""

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator

from reconciler.api.validation.bodies import encode
from reconciler.api.validation.kinds import GroupVersion, Object, ServedKind


class Record:
    """One version of one object. Immutable; encoded once per served version."""

    __slots__ = ("_items", "key", "kind", "object", "version")

    def __init__(self, kind: ServedKind, key: str, obj: Object, version: int) -> None:
        self.kind = kind
        self.key = key
        self.object = obj
        self.version = version
        self._items: dict[GroupVersion, bytes] = {}

    def item(self, served: GroupVersion) -> bytes:
        """JSON as an element of a list: without kind and apiVersion."""
        found = self._items.get(served)
        if found is None:
            found = self._items[served] = encode(self.kind.downgrade(self.object, served))
        return found

    def whole(self, served: GroupVersion) -> bytes:
        """JSON of a single object."""
        # Joined on each call: a cache would double the memory of the history to save one copy.
        head = f'{{"kind":"{self.kind.kind}","apiVersion":"{served}",'.encode()
        return head + self.item(served)[1:]

    def restamped(self, version: int) -> "Record":
        """The same content with another resourceVersion."""
        metadata = {**self.object["metadata"], "resourceVersion": str(version)}
        return Record(self.kind, self.key, {**self.object, "metadata": metadata}, version)


class Change:
    """A change. `previous` is None for a creation; for a deletion `record` is the last content."""

    __slots__ = ("_lines", "deleted", "previous", "record")

    def __init__(self, record: Record, previous: Record | None, *, deleted: bool) -> None:
        self.record = record
        self.previous = previous
        self.deleted = deleted
        self._lines: dict[GroupVersion, bytes] = {}

    @property
    def type(self) -> str:
        """ADDED, MODIFIED or DELETED for a watcher that selects everything."""
        if self.deleted:
            return "DELETED"
        return "ADDED" if self.previous is None else "MODIFIED"

    def line(self, served: GroupVersion) -> bytes:
        """The watch event as a line, encoded once for all watchers."""
        found = self._lines.get(served)
        if found is None:
            found = self._lines[served] = event_line(self.type, self.record.whole(served))
        return found


def event_line(kind: str, obj: bytes) -> bytes:
    """One watch event with its newline."""
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), obj)


class Compacted(Exception):
    """The requested history is no longer kept."""


class KindStore:
    """The objects of one kind in key order, and their bounded history.

    Positions in the history count from the first change ever, so that a reader's position stays
    valid when old changes are dropped.
    """

    def __init__(self, kind: ServedKind, keep: int) -> None:
        self.kind = kind
        self._keep = keep
        self._records: dict[str, Record] = {}
        self._keys: list[str] = []
        self._changes: list[Change] = []
        self._dropped = 0
        self._compacted = 0
        self._waiters: dict[asyncio.Future[None], None] = {}  # ordered, so that runs with one seed are equal

    def __len__(self) -> int:
        return len(self._records)

    def get(self, key: str) -> Record | None:
        """The current version of one object."""
        return self._records.get(key)

    def scan(self, prefix: str) -> Iterator[Record]:
        """Current objects whose key starts with `prefix`, in key order."""
        keys = self._keys
        start, end = (
            (bisect_left(keys, prefix), bisect_left(keys, prefix[:-1] + "0")) if prefix else (0, len(keys))
        )
        # "0" follows "/" in ASCII: the first key after everything below the prefix.
        return map(self._records.__getitem__, keys[start:end])

    def scan_at(self, prefix: str, version: int) -> list[Record]:
        """The result of `scan` at an earlier version. Raises Compacted."""
        after = self._changes[self.position(version) - self._dropped :]
        if not after:
            return list(self.scan(prefix))
        then: dict[str, Record] = {record.key: record for record in self.scan(prefix)}
        for change in reversed(after):
            if not change.record.key.startswith(prefix):
                continue
            if change.previous is None:
                then.pop(change.record.key, None)
            else:
                then[change.record.key] = change.previous
        return [then[key] for key in sorted(then)]

    def apply(self, change: Change) -> None:
        """Apply a change to the objects and the history, and wake the waiting watches."""
        key = change.record.key
        if change.deleted:
            del self._records[key]
            del self._keys[bisect_left(self._keys, key)]
        else:
            if change.previous is None:
                insort(self._keys, key)
            self._records[key] = change.record
        self._changes.append(change)
        # Trim in bulk: removing single items from the front of a list is quadratic.
        if len(self._changes) > 2 * self._keep:
            self.compact(self._keep)
        self._wake()

    def compact(self, keep: int) -> None:
        """Drop all but the last `keep` changes."""
        drop = len(self._changes) - keep
        if drop > 0:
            self._compacted = self._changes[drop - 1].record.version
            del self._changes[:drop]
            self._dropped += drop

    def position(self, version: int) -> int:
        """The position in the history right after `version`. Raises Compacted."""
        if version < self._compacted:
            raise Compacted
        return self._dropped + bisect_right(self._changes, version, key=lambda change: change.record.version)

    @property
    def end(self) -> int:
        """The position of the next change."""
        return self._dropped + len(self._changes)

    def since(self, position: int, most: int) -> list[Change]:
        """Up to `most` changes from a position on. Raises Compacted if they are no longer kept."""
        if position < self._dropped:
            raise Compacted
        start = position - self._dropped
        return self._changes[start : start + most]

    async def wait(self, position: int) -> None:
        """Return once there is a change at `position`. Cancellation removes the waiter."""
        if position < self.end:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        try:
            await waiter
        finally:
            self._waiters.pop(waiter, None)

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


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
