"""Watches: initial events, then every change in order, with bookmarks, until a timeout."""

import asyncio
from collections.abc import AsyncGenerator, Mapping

from msgspec import Struct

from reconciler.api.validation.bodies import Refusal, bad_request, encode, expired, version_too_large
from reconciler.embedded.reading import Predicate, View, everything, list_options_invalid, selection
from reconciler.embedded.routing import Target
from reconciler.embedded.store import Change, Compacted, KindStore, Store, event_line

LIFETIME_SECONDS = 1800.0
"""Duration of a watch without timeoutSeconds. Clients must be ready to watch again."""
BOOKMARK_SECONDS = 60.0
BUSY = 20
"""With more events within `BUSY_SECONDS`, events are sent in batches: each chunk costs both sides a system
call."""
BUSY_SECONDS = 0.01
GATHER_SECONDS = 0.002
BATCH = 256
"""Maximum events in one chunk: limits the memory that a slow reader uses."""


class Watch(Struct, frozen=True):
    """One watch with its parameters."""

    store: Store
    target: Target
    view: View
    predicate: Predicate
    start: int | None
    """The version to continue from; None to start with the current objects."""
    seconds: float
    bookmarks: bool
    marks_initial: bool
    """Whether a bookmark ends the initial events."""

    @property
    def _kind_store(self) -> KindStore:
        return self.store[self.target.kind]

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Lines of events until the timeout or until the history is compacted. Closing it frees all state."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.seconds
        bookmark = loop.time() + BOOKMARK_SECONDS
        counted_from, counted = loop.time(), 0
        try:
            if self.start is None:
                position, initial = self._kind_store.end, self._initial()
                for lines in initial:
                    yield lines
            else:
                position = self._kind_store.position(self.start)
            while True:
                if changes := self._kind_store.since(position, BATCH):
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
                await self._kind_store.wait(position)
        except TimeoutError:
            return

    def _initial(self) -> list[bytes]:
        records = [r for r in self._kind_store.scan(self.target.prefix) if self.predicate(r.object)]
        chunks = [
            b"".join([self.view.line("ADDED", record) for record in records[start : start + BATCH]])
            for start in range(0, len(records), BATCH)
        ]
        return [*chunks, self._bookmark(initial=True)] if self.marks_initial else chunks

    def _line(self, change: Change) -> bytes:
        """The event for a change; empty if it concerns no selected object."""
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
        # No longer selected: send the last selected content with the version of this change.
        return self.view.line("DELETED", change.previous.restamped(change.record.version))

    def _bookmark(self, *, initial: bool = False) -> bytes:
        metadata: dict[str, object] = {"resourceVersion": str(self.store.version)}
        if initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        kind = {"kind": self.target.kind.kind, "apiVersion": str(self.target.served)}
        return event_line("BOOKMARK", encode({**kind, "metadata": metadata}))


def start_watch(store: Store, target: Target, query: Mapping[str, str], view: View) -> Watch:
    """Parse the parameters of a watch. Raises a Refusal."""
    predicate = selection(target, query)
    text = query.get("resourceVersion", "")
    if text and not (text.isdecimal() and len(text) <= 20):
        # Like a real server, which passes the text to its number parser unchecked.
        raise Refusal(500, "", f"resourceVersion: Invalid value: {text!r}: not a whole number")
    initial = query.get("sendInitialEvents")
    if initial is not None and query.get("resourceVersionMatch") != "NotOlderThan":
        raise list_options_invalid("sendInitialEvents", "requires resourceVersionMatch NotOlderThan")
    if initial is None and query.get("resourceVersionMatch"):
        raise list_options_invalid("resourceVersionMatch", "a watch accepts it only with sendInitialEvents")
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
