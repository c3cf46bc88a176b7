"""Keep one kind in view for ever: list it, watch from there, list again when the server says so."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from reconciler.aio.tasks import Stopped, unless
from reconciler.api.objects.changes import Change, Changed, Refused, Replaced
from reconciler.api.objects.meta import ApiObject
from reconciler.api.versions.reading import read
from reconciler.cluster.client import Client
from reconciler.cluster.cursor import Cursor, Decode, listed, precedes
from reconciler.cluster.echoes import Echoes
from reconciler.cluster.kinds import Resource
from reconciler.errors import Gone, Inconsistent, ReconcilerError, Rejected, Relist, Retry

log = structlog.get_logger()

Sink = Callable[[Change], None]

SHORT = 1.0
"""Seconds. A watch that ends sooner and told nothing counts as a failure, or it would spin."""

DEAR = frozenset({"ResourceSlice"})
"""Kinds of which taking in a single object takes a millisecond. Those of a listing are told one by one before
the whole is: to the sink they are changes like others, and the rest of us gets its turns."""
MANY = frozenset({"ResourceClaim", "Pod"})
"""Kinds of which the same goes for the very first listing, when every object is new and nothing is decided
yet. Later most are as they were, and what changed came in an order that no listing tells: at one go."""

DOUBT = 5
"""Failures in a row that a version survives: a server restored from a backup may never have had it."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How patiently a server is watched. Times in seconds."""

    shortest: float = 300.0
    longest: float = 600.0
    """A watch is asked to end after a random time between the two, so that watches do not end together."""
    idle: float = 90.0
    """Silence after which a watch is given up: servers send a bookmark about every minute."""
    base: float = 1.0
    cap: float = 30.0
    """Back-off after failures: doubling from `base` to `cap`, less up to half of it."""


class Recall:
    """Makes one `follow` list its kind again now: what others wrote until then has been told afterwards."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._begun: list[asyncio.Future[None]] = []

    async def listed_again(self) -> None:
        """Wait for a listing that begins after this was called."""
        told = asyncio.get_running_loop().create_future()
        self._waiting.append(told)
        self.requested.set()
        await told

    def begun(self) -> None:
        """A listing begins."""
        self.requested.clear()
        self._begun += self._waiting
        self._waiting = []

    def done(self) -> None:
        """The listing was told."""
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
    decode: Decode = read,
    pace: Pace = Pace(),
    recall: Recall | None = None,
    echoes: Echoes | None = None,
) -> None:
    """Tell the sink everything about one kind, for ever: Replaced first, then each change.

    Of some kinds the objects of a listing come before that, one by one, see DEAR and MANY. Replaced
    comes again whenever the place in the stream of events was lost. Every error of the server, a missing
    permission included, is logged and tried again; `random` gives numbers in [0, 1). A `recall` breaks
    off what is under way for a new listing; `echoes` knows which news of claims need not be read.
    Cancelled: every change that was read has been told. An error of the sink ends the run.
    """
    recall = recall or Recall()
    follower = _Follower(client, resource, sink, random, decode, pace, recall, echoes)
    while True:
        try:
            try:
                await unless(recall.requested, follower.advance())
            except (Retry, Relist, Rejected, Gone) as exc:
                await unless(recall.requested, asyncio.sleep(follower.pause(exc)))
        except Stopped:
            follower.cursor = None
            recall.begun()


@dataclass(slots=True)
class _Follower:
    """The state of one `follow`: where it is, and how often it failed in a row."""

    client: Client
    resource: Resource
    sink: Sink
    random: Callable[[], float]
    decode: Decode
    pace: Pace
    recall: Recall
    echoes: Echoes | None
    cursor: Cursor | None = None
    seen: str = ""
    """The highest version the server has shown since it was last set back"""
    failures: int = 0
    doubts: int = 0
    """Failures since the listing, or since the last event."""

    async def advance(self) -> None:
        """One listing if the place was lost, then one watch until it ends."""
        if self.cursor is None:
            self.cursor = await self._list()
            self.doubts = 0
        try:
            await self._watch(self.cursor)
        finally:
            if self.cursor is not None:
                self.seen = self.cursor.version

    def pause(self, exc: ReconcilerError) -> float:
        """Note a failure. Returns the seconds to wait before going on."""
        self.doubts += 1
        if isinstance(exc, Relist) or self.doubts > DOUBT:
            self.cursor = None
        full = min(self.pace.cap, self.pace.base * 2.0 ** min(self.failures, 32))
        self.failures += 1
        seconds = full * (0.5 + self.random() / 2)
        if isinstance(exc, Retry):
            seconds = max(seconds, exc.after)
        # A single failure is how watches end in daily life; several in a row are worth a look.
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
        objects: list[ApiObject] = []
        refused: list[Refused] = []
        version = ""
        async for page in self.client.list_pages(self.resource, limit=self.resource.page):
            version = page.version
            self._note_contact()
            for item in page.items:
                found = listed(item, page.mark, self.resource, self.decode)
                if isinstance(found, Refused):
                    refused.append(found)
                else:
                    objects.append(found)
                    if self.resource.kind in DEAR:
                        self._emit(Changed(self.resource.kind, found))
                await asyncio.sleep(0)  # a page holds hundreds, and workers wait
        if self.resource.kind in MANY and not self.seen:
            for one in objects:  # not before all are there: half of a listing that failed would be a past
                self._emit(Changed(self.resource.kind, one))
                await asyncio.sleep(0)
        afresh = precedes(version, self.seen)
        self._emit(Replaced(self.resource.kind, tuple(objects), tuple(refused), afresh))
        self.recall.done()
        log.debug("listed", kind=self.resource.kind, objects=len(objects), refused=len(refused))
        echoes = self.echoes if self.resource.kind == "ResourceClaim" else None
        return Cursor(self.resource, self.decode, version, echoes)

    async def _watch(self, cursor: Cursor) -> None:
        """One watch, to its end. Raises Retry when it ended at once without telling anything."""
        before = cursor.version
        seconds = self.pace.shortest + self.random() * (self.pace.longest - self.pace.shortest)
        query = [
            ("resourceVersion", cursor.version),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(int(seconds))),
        ]
        async with self.client.watch(self.resource, query=query, idle=self.pace.idle) as lines:
            opened = self._note_contact()
            try:
                async for line in lines:
                    self._note_contact()
                    change = cursor.feed(line)
                    if change is not None:
                        self._emit(change)
                    await asyncio.sleep(0)  # thousands of events may be buffered
            finally:
                lasted = asyncio.get_running_loop().time() - opened
                if cursor.version != before or lasted >= SHORT:
                    self.failures = self.doubts = 0
        if cursor.version == before and lasted < SHORT:
            raise Retry(f"watch of {self.resource.plural} ended after {lasted:.3f} s without an event")

    def _note_contact(self) -> float:
        """The server sent something now. Returns the time, in seconds of the event loop."""
        now = self.client.last_contact[self.resource.kind] = asyncio.get_running_loop().time()
        return now

    def _emit(self, change: Change) -> None:
        """Hand a change over. The sink's own errors must not pass for errors of the server."""
        try:
            self.sink(change)
        except ReconcilerError as exc:
            raise Inconsistent(f"a change of {self.resource.kind} was not taken: {exc}") from exc
