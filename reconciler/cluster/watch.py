"""Lists and watches one kind, and lists it again when the watch lost its place."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

import structlog
from msgspec import Struct, field

from reconciler.aio.tasks import Breaks, Stopped, unless
from reconciler.api.objects.changes import Changed, Listed, Notice, Refused, Removed, Replaced
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.cluster.client import Client
from reconciler.cluster.events import Cursor, IsKnown, listed, precedes
from reconciler.cluster.kinds import Resource
from reconciler.errors import Gone, Inconsistent, ReconcilerError, Rejected, Relist, Retry

log = structlog.get_logger()

Sink = Callable[[Notice], None]

SHORT = 1.0
"""Seconds. A watch that ends sooner without an event counts as a failure, to avoid a busy loop."""

EVENTS_SECONDS = 0.001
"""Seconds of events without a break. Short, because the watches of all kinds may be busy at once."""

NUMEROUS = frozenset({"ResourceClaim", "Pod"})
"""Kinds whose first listing is emitted one by one before the whole, so that other tasks run in between: every
object is new, and nothing is decided yet. Later listings are emitted at once: most objects are unchanged, and
the order of the changes is unknown."""

UNSHOWN_SECONDS = 600.0
"""Time without an event or bookmark after which the kind is listed again: a server that was restored from a
backup says nothing about a version that it does not have yet"""

OLD_LISTINGS = 8
"""Lists in a row that are older than what was seen, and are asked for again: a cache on the way may be
behind, and what it lacks would be given twice. Old for a minute or two: the server was restored."""

FAILURES_SURVIVED = 5
"""Failures in a row after which the kind is listed again: a server restored from a backup may not know the
version."""


class Pace(Struct, frozen=True):
    """Durations of a watch, in seconds."""

    shortest: float = 300.0
    longest: float = 600.0
    """The timeout of a watch is random between the two, so that watches do not end together."""
    idle: float = 90.0
    """Silence after which a watch counts as broken: servers send a bookmark about every minute."""
    base: float = 1.0
    cap: float = 30.0
    """Back-off after failures: doubles from `base` to `cap`, minus a random part of up to a half."""


USUAL = Pace()


class Recall:
    """Makes one `follow` list its kind again, so that all earlier writes of others are known."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._begun: list[asyncio.Future[None]] = []

    async def listed_again(self) -> None:
        """Wait for a listing that starts after this call."""
        listed = asyncio.get_running_loop().create_future()
        self._waiting.append(listed)
        self.requested.set()
        await listed

    def begun(self) -> None:
        """A listing starts."""
        self.requested.clear()
        self._begun += self._waiting
        self._waiting = []

    def done(self) -> None:
        """The listing was emitted."""
        for waiting in self._begun:
            if not waiting.done():
                waiting.set_result(None)
        self._begun.clear()


async def follow(
    client: Client,
    resource: Resource,
    *,
    sink: Sink,
    random: Callable[[], float],
    pace: Pace = USUAL,
    recall: Recall | None = None,
    is_known: IsKnown | None = None,
    on_error: Callable[[ReconcilerError], None] = lambda _: None,
    choose: Callable[[], Awaitable[Resource]] | None = None,
) -> None:
    """Pass all changes of one kind to the sink until cancelled: Replaced first, then each change.

    For some kinds, the objects of a listing come first, one by one; see NUMEROUS. For kinds that are passed
    on `singly`, Listed comes instead of Replaced, after all objects and the removal of those that are gone.
    Either comes again whenever the place in the stream of events was lost. Every error of the server, a
    missing permission included, is logged and retried; `random` returns numbers in [0, 1). A `recall`
    interrupts for a new listing; `is_known` says which events of claims can be skipped; `on_error` gets every
    error; `choose` asks for the version to use before each listing, since a server may stop to serve one.
    Cancelled: every change that was read was passed on. An error of the sink ends the run.
    """
    recall = recall or Recall()
    follower = _Follower(client, resource, sink, random, pace, recall, is_known, choose)
    while True:
        try:
            try:
                await unless(recall.requested, follower.advance())
            except (Retry, Relist, Rejected, Gone) as exc:
                on_error(exc)
                await unless(recall.requested, asyncio.sleep(follower.pause(exc)))
        except Stopped:
            follower.cursor = None
            recall.begun()


class _Read(Struct):
    """What was read of a listing."""

    version: str = ""
    afresh: bool = False
    """The server was restored: versions begin anew"""
    objects: int = 0
    refused: int = 0


class _Follower(Struct):
    """The state of one `follow`: its place, and its failures in a row."""

    client: Client
    resource: Resource
    sink: Sink
    random: Callable[[], float]
    pace: Pace
    recall: Recall
    is_known: IsKnown | None
    choose: Callable[[], Awaitable[Resource]] | None
    cursor: Cursor | None = None
    seen: str = ""
    """The highest version that the server has shown since it was last restored"""
    old_listings: int = 0
    """In a row: at a version before `seen`"""
    shown_at: float = 0.0
    """When the server showed a version last, by the event loop"""
    failures: int = 0
    doubts: int = 0
    """Failures since the listing, or since the last event."""
    known: dict[ObjectKey, int] = field(default_factory=dict)
    """Of a kind that is passed on singly: what was passed on and not removed, and in which listing at last"""
    listings: int = 0
    """How many were begun of such a kind"""

    async def advance(self) -> None:
        """List if the place was lost, then watch once until the watch ends."""
        now = asyncio.get_running_loop().time()
        if self.cursor is not None and now - self.shown_at > UNSHOWN_SECONDS:
            self.cursor = None
        if self.cursor is None:
            if self.choose is not None:
                self.resource = await self.choose()
            self.cursor = await self._list()
            self.shown_at, self.doubts = now, 0
        try:
            await self._watch(self.cursor)
        finally:
            if self.cursor is not None:
                self.seen = self.cursor.version

    def pause(self, exc: ReconcilerError) -> float:
        """Record a failure. Returns the seconds to wait before the next attempt."""
        self.doubts += 1
        if isinstance(exc, Relist | Gone) or self.doubts > FAILURES_SURVIVED:
            self.cursor = None
        full = min(self.pace.cap, self.pace.base * 2.0 ** min(self.failures, 32))
        self.failures += 1
        seconds = full * (0.5 + self.random() / 2)
        if isinstance(exc, Retry):
            seconds = max(seconds, exc.after)
        # A single failure is normal for a watch; several in a row are worth a warning.
        say = log.debug if self.failures == 1 and isinstance(exc, Retry | Relist) else log.warning
        say(
            "watch interrupted",
            kind=self.resource.kind,
            error=str(exc),
            failures=self.failures,
            pause=seconds,
        )
        return seconds

    async def _list(self) -> Cursor:
        read = await (self._list_singly() if self.resource.singly else self._list_whole())
        self.recall.done()
        self.old_listings = 0
        log.debug("listed", kind=self.resource.kind, objects=read.objects, refused=read.refused)
        is_known = self.is_known if self.resource.kind == "ResourceClaim" else None
        return Cursor(self.resource, read.version, is_known)

    async def _list_singly(self) -> "_Read":
        """Pass on each object as it is read, then remove what is gone."""
        read, there = _Read(), 0
        self.listings += 1
        async for found in self._objects(read):
            there += self.known.get(found.key) != self.listings  # none twice
            self._emit(found if isinstance(found, Refused) else Changed(self.resource.kind, found))
        if there < len(self.known):
            await self._remove_gone()
        self._emit(Listed(self.resource.kind))
        return read

    async def _remove_gone(self) -> None:
        """Pass on that what the last listing did not have is gone."""
        breaks = Breaks()
        for key in sorted(key for key, listing in self.known.items() if listing < self.listings):
            self._emit(Removed(self.resource.kind, key))
            await breaks.after_step()

    async def _list_whole(self) -> "_Read":
        """Pass on the objects together when all are read."""
        objects: list[ApiObject] = []
        refused: list[Refused] = []
        read = _Read()
        async for found in self._objects(read):
            if isinstance(found, Refused):
                refused.append(found)
            else:
                objects.append(found)
        if self.resource.kind in NUMEROUS and not self.seen:
            breaks = Breaks()
            # Only when all pages are read: half of a failed listing would be inconsistent.
            for one in objects:
                self._emit(Changed(self.resource.kind, one))
                await breaks.after_step()
        self._emit(Replaced(self.resource.kind, tuple(objects), tuple(refused), read.afresh))
        return read

    async def _objects(self, read: "_Read") -> AsyncGenerator[ApiObject | Refused, None]:
        """All objects of a listing, with breaks for other tasks. Counts them in `read`."""
        breaks = Breaks()
        async with aclosing(self.client.list_pages(self.resource, limit=self.resource.page)) as pages:
            async for page in pages:
                self._note_contact()
                if not read.version:
                    read.afresh = self._is_restored(page.version)
                read.version = page.version
                for item in page.items:
                    found = listed(item, self.resource)
                    if isinstance(found, Refused):
                        read.refused += 1
                    else:
                        read.objects += 1
                    yield found
                    await breaks.after_step()

    def _is_restored(self, version: str) -> bool:
        """Whether a listing is of a server that was restored. Raises Retry while a cache may be behind."""
        older = precedes(version, self.seen)
        self.old_listings = self.old_listings + 1 if older else 0
        if 0 < self.old_listings <= OLD_LISTINGS:
            what = f"list of {self.resource.plural} at version {version}"
            raise Retry(f"{what}: the server had {self.seen} before", busy=True)
        return older

    async def _watch(self, cursor: Cursor) -> None:
        """Watch once until it ends. Raises Retry if it ended at once without an event."""
        before = cursor.version
        seconds = self.pace.shortest + self.random() * (self.pace.longest - self.pace.shortest)
        query = [
            ("resourceVersion", cursor.version),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(int(seconds))),
        ]
        async with self.client.watch(self.resource, query=query, idle=self.pace.idle) as lines:
            opened = self._note_contact()
            breaks = Breaks(EVENTS_SECONDS)  # thousands of events may be buffered
            try:
                async for line in lines:
                    breaks.before_step()
                    self._note_contact()
                    change = cursor.feed(line)
                    if change is not None:
                        self._emit(change)
                    await breaks.after_step()
            finally:
                lasted = asyncio.get_running_loop().time() - opened
                if cursor.version != before:
                    self.shown_at = opened + lasted
                if cursor.version != before or lasted >= SHORT:
                    self.failures = self.doubts = 0
        if cursor.version == before and lasted < SHORT:
            raise Retry(f"watch of {self.resource.plural} ended after {lasted:.3f} s without an event")

    def _note_contact(self) -> float:
        """The server sent something now. Returns the time, in seconds of the event loop."""
        now = self.client.last_contact[self.resource.kind] = asyncio.get_running_loop().time()
        return now

    def _emit(self, change: Notice) -> None:
        """Pass on a change. Errors of the sink must not be taken for errors of the server."""
        if self.resource.singly:
            match change:
                case Changed(object=thing):
                    self.known[thing.key] = self.listings
                case Refused(key=key):
                    self.known[key] = self.listings
                case Removed(key=key):
                    self.known.pop(key, None)
        try:
            self.sink(change)
        except ReconcilerError as exc:
            raise Inconsistent(f"a change of {self.resource.kind} was not applied: {exc}") from exc
