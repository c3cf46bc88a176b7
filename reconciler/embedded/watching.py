"""Watches: initial events, then every change in order, bookmarks, and an end."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass

from reconciler.embedded.encoding import encode
from reconciler.embedded.presenting import View
from reconciler.embedded.reading import list_options_invalid, selection
from reconciler.embedded.routing import Target
from reconciler.embedded.selectors import Predicate, everything
from reconciler.embedded.shelf import Change, Compacted, Shelf, event_line
from reconciler.embedded.status import Refusal, bad_request, expired, version_too_large
from reconciler.embedded.store import Store

LIFETIME_SECONDS = 1800.0
"""How long a watch lasts that names no timeout. Clients must be ready to start over."""
BOOKMARK_SECONDS = 60.0
BUSY = 20
"""Events within `BUSY_SECONDS` from which on they are gathered, and no longer sent one by one: each chunk
costs us and the reader a system call."""
BUSY_SECONDS = 0.01
GATHER_SECONDS = 0.002
BATCH = 256
"""Events in one chunk at most: bounds what a slow reader makes us hold."""


@dataclass(frozen=True, slots=True)
class Watch:
    """One watch, as asked for."""

    store: Store
    target: Target
    view: View
    predicate: Predicate
    start: int | None
    """The version to continue from; None begins with the current objects."""
    seconds: float
    bookmarks: bool
    marks_initial: bool
    """Whether a bookmark ends the initial events."""

    @property
    def _shelf(self) -> Shelf:
        return self.store[self.target.kind]

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Lines of events until the time is over or history is lost. Closing it leaves nothing behind."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.seconds
        bookmark = loop.time() + BOOKMARK_SECONDS
        counted_from, counted = loop.time(), 0
        try:
            if self.start is None:
                position, initial = self._shelf.end, self._initial()
                for lines in initial:
                    yield lines
            else:
                position = self._shelf.position(self.start)
            while True:
                if changes := self._shelf.since(position, BATCH):
                    position += len(changes)
                    if lines := b"".join(map(self._line, changes)):
                        yield lines
                    if loop.time() - counted_from > BUSY_SECONDS:
                        counted_from, counted = loop.time(), 0
                    counted += len(changes)
                    if counted > BUSY and len(changes) < BATCH:
                        await asyncio.sleep(GATHER_SECONDS)
                elif loop.time() >= end:
                    return
                elif self.bookmarks and loop.time() >= bookmark:
                    bookmark = loop.time() + BOOKMARK_SECONDS
                    yield self._bookmark()
                else:
                    await self._wait(position, min(end, bookmark) if self.bookmarks else end)
        except Compacted:
            yield _error(expired("The resourceVersion for the provided watch is too old."))

    async def _wait(self, position: int, until: float) -> None:
        try:
            async with asyncio.timeout_at(until):
                await self._shelf.wait(position)
        except TimeoutError:
            return

    def _initial(self) -> list[bytes]:
        records = [r for r in self._shelf.scan(self.target.prefix) if self.predicate(r.object)]
        chunks = [
            b"".join([self.view.line("ADDED", record) for record in records[start : start + BATCH]])
            for start in range(0, len(records), BATCH)
        ]
        return [*chunks, self._bookmark(initial=True)] if self.marks_initial else chunks

    def _line(self, change: Change) -> bytes:
        """The event for a change; nothing where it concerns no selected object."""
        if not change.record.key.startswith(self.target.prefix):
            return b""
        if self.predicate is everything:
            return self.view.change(change)
        was = change.previous is not None and self.predicate(change.previous.object)
        now = not change.deleted and self.predicate(change.record.object)
        if now:
            return self.view.line("MODIFIED" if was else "ADDED", change.record)
        if not was or change.previous is None:
            return b""
        # Gone from the selection: the content it was selected for, at the version it left.
        return self.view.line("DELETED", change.previous.restamped(change.record.version))

    def _bookmark(self, *, initial: bool = False) -> bytes:
        metadata: dict[str, object] = {"resourceVersion": str(self.store.version)}
        if initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        kind = {"kind": self.target.kind.kind, "apiVersion": str(self.target.served)}
        return event_line("BOOKMARK", encode({**kind, "metadata": metadata}))


def start_watch(store: Store, target: Target, query: Mapping[str, str], view: View) -> Watch:
    """Read the parameters of a watch. Raises a Refusal."""
    predicate = selection(target, query)
    text = query.get("resourceVersion", "")
    if text and not (text.isdecimal() and len(text) <= 20):
        # What a real server says: the text reaches its number parser unchecked.
        raise Refusal(500, "", f"resourceVersion: Invalid value: {text!r}: not a whole number")
    initial = query.get("sendInitialEvents")
    if initial is not None and query.get("resourceVersionMatch") != "NotOlderThan":
        raise list_options_invalid("sendInitialEvents", "needs resourceVersionMatch NotOlderThan")
    if initial is None and query.get("resourceVersionMatch"):
        raise list_options_invalid("resourceVersionMatch", "a watch takes it with sendInitialEvents only")
    streams_list = initial is not None and initial.lower() in ("true", "1")
    if streams_list and int(text or 0) > store.version:
        raise version_too_large(int(text), store.version)
    start: int | None = int(text or 0) or None
    if initial is not None:
        start = None if streams_list else start or store.version
    bookmarks = query.get("allowWatchBookmarks", "").lower() in ("true", "1")
    return Watch(
        store,
        target,
        view,
        predicate,
        start,
        _seconds(query),
        bookmarks,
        marks_initial=streams_list and bookmarks,
    )


def _seconds(query: Mapping[str, str]) -> float:
    text = query.get("timeoutSeconds", "") or "0"
    if not text.isdecimal() or len(text) > 9:
        raise bad_request(f"timeoutSeconds: {text!r} is not a whole number")
    return float(text) or LIFETIME_SECONDS


def _error(refusal: Refusal) -> bytes:
    return event_line("ERROR", encode(refusal.body()))
