"""Writes Kubernetes Events about claims and pods, which `kubectl describe` shows. Best effort.

There is one Warning per object and reason. If it occurs again within some minutes, the Event becomes a series
with a count, as in Kubernetes components. Normal Events are written only while no Warning is queued.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, Protocol

import structlog
from msgspec import Struct

from reconciler.api.objects.meta import ObjectKey
from reconciler.errors import Gone, Inconsistent, ReconcilerError, Rejected

log = structlog.get_logger()

CONTROLLER = "dra-reconciler.io/reconciler"
ALLOCATING = "Allocating"
DECISION_ID = "dra-reconciler.io/decision-id"
FLUSH_SECONDS = 2.0
"""Time for Events that are still queued when the process stops: 70 at most (BURST and those of PER_SECOND),
about 20 right after a burst"""
MAX_QUEUED = 256
"""Queued Events of each type; further ones are dropped and counted"""
PER_SECOND = 10.0
"""Events per second after the burst: they must not delay the writes of allocations"""
BURST = 50
CACHE_SIZE = 4096
"""Cached pairs of object and reason that have an Event"""
SERIES_SECONDS = 360.0
"""Time after the last occurrence in which the same Event is counted up"""
MAX_BYTES = 1024
"""Size of a note; the API server rejects longer ones"""
MAX_NAME = 253
BACKOFF_SECONDS = 60.0
"""Pause after a rejected Event: a missing permission stays missing for a while"""


class Sink(Protocol):
    """Writes Events."""

    async def create(self, event: dict[str, Any]) -> None:
        """Write a new Event."""

    async def repeat(self, key: ObjectKey, series: dict[str, Any]) -> None:
        """Count another occurrence. Raises Gone if the Event no longer exists."""


class Regarding(NamedTuple):
    """The object of an Event."""

    api_version: str
    kind: str
    key: ObjectKey
    uid: str

    def to_json(self) -> dict[str, str]:
        """The reference in an Event."""
        namespace = {"namespace": self.key.namespace} if self.key.namespace else {}
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            **namespace,
            "name": self.key.name,
            "uid": self.uid,
        }


class Notice(Struct, frozen=True):
    """An Event to write."""

    regarding: Regarding
    reason: str
    note: str
    decision_id: str
    type: Literal["Normal", "Warning"] = "Warning"
    action: str = ALLOCATING
    """What the reporting controller did, as a gerund"""
    related: Regarding | None = None
    """The other object of the action, such as the pod that a claim is allocated for"""

    @property
    def series(self) -> tuple[str, str, str]:
        """Notices with the same value are one Event with a count.

        A Warning keeps its first note. A Normal Event with another note is another Event: it names devices.
        """
        return self.regarding.uid, self.reason, self.note if self.type == "Normal" else ""


class _Series(Struct):
    key: ObjectKey
    count: int
    last: float


class Events:
    """Queues notices and writes them one after the other."""

    def __init__(
        self, sink: Sink, *, instance: str, clock: Callable[[], float], now: Callable[[], datetime]
    ) -> None:
        """`instance` names this process; `clock` counts seconds; `now` returns the time with its zone."""
        self._sink = sink
        self._instance = instance
        self._clock = clock
        self._now = now
        self._warnings: deque[Notice] = deque()
        self._normal: deque[Notice] = deque()
        self._queued = asyncio.Event()
        self._series: OrderedDict[tuple[str, str, str], _Series] = OrderedDict()
        self._tokens = float(BURST)
        self._filled = clock()
        self._paused_until = 0.0
        self.written = 0
        self.dropped = 0
        """Events that were not written: the queue was full, the API server rejected them, or did not answer
        before the process stopped
        """

    def record(self, notices: Iterable[Notice]) -> None:
        """Queue notices. Does not wait."""
        for notice in notices:
            queue = self._warnings if notice.type == "Warning" else self._normal
            if len(queue) == MAX_QUEUED:
                self.dropped += 1
                continue
            queue.append(notice)
            self._queued.set()

    async def run(self) -> None:
        """Write Events until cancelled. An Event that cannot be written is dropped."""
        while True:
            await self._queued.wait()
            await self._wait_for_token()
            await self._try(self._next())

    async def flush(self) -> None:
        """Write what is queued, for FLUSH_SECONDS at most. For a process that stops, after `run`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_SECONDS):
                while self._queued.is_set():
                    await self._wait_for_token()
                    await self._try(self._next())
        self.dropped += len(self._warnings) + len(self._normal)

    async def _try(self, notice: Notice) -> None:
        """Write an Event, or drop it if that is not possible."""
        if self._clock() < self._paused_until:
            self.dropped += 1
            return
        try:
            await self._write(notice)
            self.written += 1
        except asyncio.CancelledError:  # the process stops, and the server has not answered
            self.dropped += 1
            raise
        except Inconsistent:
            raise
        except Rejected as exc:
            self.dropped += 1
            self._paused_until = self._clock() + BACKOFF_SECONDS
            log.warning("events cannot be written", error=str(exc), pause=BACKOFF_SECONDS)
        except ReconcilerError as exc:
            self.dropped += 1
            log.debug("event dropped", error=str(exc))

    def _next(self) -> Notice:
        """The next notice. Allocations come in bursts, and must not delay Warnings."""
        notice = (self._warnings or self._normal).popleft()
        if not self._warnings and not self._normal:
            self._queued.clear()
        return notice

    async def _wait_for_token(self) -> None:
        """Wait until the token bucket allows a write."""
        now = self._clock()
        self._tokens = min(float(BURST), self._tokens + (now - self._filled) * PER_SECOND)
        self._filled = now
        self._tokens -= 1.0
        if self._tokens < 0:
            await asyncio.sleep(-self._tokens / PER_SECOND)

    async def _write(self, notice: Notice) -> None:
        key = notice.series
        series = self._series.get(key)
        if series is not None and self._clock() - series.last < SERIES_SECONDS:
            series.count += 1
            series.last = self._clock()
            try:
                await self._sink.repeat(
                    series.key, {"count": series.count, "lastObservedTime": self._stamp()}
                )
            except Gone:
                del self._series[key]
            else:
                self._series.move_to_end(key)
                return
        event = self._event(notice)
        await self._sink.create(event)
        metadata = event["metadata"]
        self._series[key] = _Series(ObjectKey(metadata["namespace"], metadata["name"]), 1, self._clock())
        self._series.move_to_end(key)
        if len(self._series) > CACHE_SIZE:
            self._series.popitem(last=False)

    def _event(self, notice: Notice) -> dict[str, Any]:
        regarding = notice.regarding
        # Kubernetes names Events after the object and the time in hexadecimal.
        tail = f".{int(self._now().timestamp() * 1e9):x}"
        related = {"related": notice.related.to_json()} if notice.related is not None else {}
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                # Events of objects without a namespace are in `default`.
                "namespace": regarding.key.namespace or "default",
                "name": regarding.key.name[: MAX_NAME - len(tail)] + tail,
                "annotations": {DECISION_ID: notice.decision_id},
            },
            "eventTime": self._stamp(),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
            "action": notice.action,
            "reason": notice.reason,
            "type": notice.type,
            "note": cut(notice.note),
            "regarding": regarding.to_json(),
            **related,
        }

    def _stamp(self) -> str:
        return self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def cut(note: str) -> str:
    """The note, cut to 1024 bytes between characters."""
    raw = note.encode(errors="replace")
    if len(raw) <= MAX_BYTES:
        return raw.decode()
    end = " ..."
    return raw[: MAX_BYTES - len(end)].decode(errors="ignore") + end
