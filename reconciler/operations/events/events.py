"""Events about claims and pods that wait: what `kubectl describe` shows. Best effort, beside the work.

An Event is written once per object and reason; when it happens again within some minutes, the same Event
counts on as a series, as Kubernetes' own components do.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

import structlog

from reconciler.api.objects.meta import ObjectKey
from reconciler.errors import Gone, Inconsistent, ReconcilerError, Rejected

log = structlog.get_logger()

CONTROLLER = "dra-reconciler.io/reconciler"
ACTION = "Allocating"
DECISION_ID = "dra-reconciler.io/decision-id"
MOST_DUE = 256
"""Events that wait to be written; beyond these they are dropped and counted."""
A_SECOND = 10.0
"""Events written a second once a burst is used up: they must not crowd the writes of allocations."""
BURST = 50
REMEMBERED = 4096
"""Pairs of object and reason of which it is known that there is an Event."""
SERIES_SECONDS = 360.0
"""For so long after the last occurrence the same Event counts on."""
MOST_BYTES = 1024
"""Of a note; the server refuses longer ones."""
LONGEST_NAME = 253
BACKOFF_SECONDS = 60.0
"""No Event is tried for so long after one was refused: a right that is missing will be missing again."""


class Sink(Protocol):
    """Where Events go."""

    async def create(self, event: dict[str, Any]) -> None:
        """Write a new Event."""

    async def repeat(self, key: ObjectKey, series: dict[str, Any]) -> None:
        """Count another occurrence. Raises Gone when there is no such Event any more."""


class Regarding(NamedTuple):
    """The object that an Event is about."""

    api_version: str
    kind: str
    key: ObjectKey
    uid: str

    def to_json(self) -> dict[str, str]:
        """As an Event refers to it."""
        namespace = {"namespace": self.key.namespace} if self.key.namespace else {}
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            **namespace,
            "name": self.key.name,
            "uid": self.uid,
        }


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that happened to an object."""

    regarding: Regarding
    reason: str
    note: str
    decision_id: str


@dataclass(slots=True)
class _Told:
    key: ObjectKey
    count: int
    last: float


class Events:
    """Takes notices at once, writes them one after the other."""

    def __init__(
        self, sink: Sink, *, instance: str, clock: Callable[[], float], now: Callable[[], datetime]
    ) -> None:
        """`instance` names this process; `clock` counts seconds, `now` gives the time with its zone."""
        self._sink = sink
        self._instance = instance
        self._clock = clock
        self._now = now
        self._due: asyncio.Queue[Notice] = asyncio.Queue(MOST_DUE)
        self._told: OrderedDict[tuple[str, str], _Told] = OrderedDict()
        self._tokens = float(BURST)
        self._filled = clock()
        self._quiet_until = 0.0
        self.written = 0
        self.dropped = 0
        """Not written: too many at once, or the server did not take them"""

    def tell(self, notices: Iterable[Notice]) -> None:
        """Let notices be written when there is time. Never waits."""
        for notice in notices:
            try:
                self._due.put_nowait(notice)
            except asyncio.QueueFull:
                self.dropped += 1

    async def run(self) -> None:
        """Write until cancelled. An Event that cannot be written is dropped."""
        while True:
            notice = await self._due.get()
            await self._turn()
            if self._clock() < self._quiet_until:
                self.dropped += 1
                continue
            try:
                await self._write(notice)
                self.written += 1
            except Inconsistent:
                raise
            except Rejected as exc:
                self.dropped += 1
                self._quiet_until = self._clock() + BACKOFF_SECONDS
                log.warning("events cannot be written", error=str(exc), pause=BACKOFF_SECONDS)
            except ReconcilerError as exc:
                self.dropped += 1
                log.debug("event dropped", error=str(exc))

    async def _turn(self) -> None:
        """Wait until another write is due: a bucket of tokens."""
        now = self._clock()
        self._tokens = min(float(BURST), self._tokens + (now - self._filled) * A_SECOND)
        self._filled = now
        self._tokens -= 1.0
        if self._tokens < 0:
            await asyncio.sleep(-self._tokens / A_SECOND)

    async def _write(self, notice: Notice) -> None:
        key = notice.regarding.uid, notice.reason
        told = self._told.get(key)
        if told is not None and self._clock() - told.last < SERIES_SECONDS:
            told.count += 1
            told.last = self._clock()
            try:
                await self._sink.repeat(told.key, {"count": told.count, "lastObservedTime": self._stamp()})
            except Gone:
                del self._told[key]
            else:
                self._told.move_to_end(key)
                return
        event = self._event(notice)
        await self._sink.create(event)
        metadata = event["metadata"]
        self._told[key] = _Told(ObjectKey(metadata["namespace"], metadata["name"]), 1, self._clock())
        self._told.move_to_end(key)
        if len(self._told) > REMEMBERED:
            self._told.popitem(last=False)

    def _event(self, notice: Notice) -> dict[str, Any]:
        regarding = notice.regarding
        # The convention of Kubernetes: the object's name and the time in hexadecimal digits.
        tail = f".{int(self._now().timestamp() * 1e9):x}"
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                # What has no namespace has its Events in this one.
                "namespace": regarding.key.namespace or "default",
                "name": regarding.key.name[: LONGEST_NAME - len(tail)] + tail,
                "annotations": {DECISION_ID: notice.decision_id},
            },
            "eventTime": self._stamp(),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
            "action": ACTION,
            "reason": notice.reason,
            "type": "Warning",
            "note": cut(notice.note),
            "regarding": regarding.to_json(),
        }

    def _stamp(self) -> str:
        return self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def cut(note: str) -> str:
    """A note that the server takes: at most 1024 bytes, no character halved."""
    raw = note.encode(errors="replace")
    if len(raw) <= MOST_BYTES:
        return raw.decode()
    end = " ..."
    return raw[: MOST_BYTES - len(end)].decode(errors="ignore") + end
