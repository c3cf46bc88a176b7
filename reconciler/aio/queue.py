"""A queue of keys. Each key is queued at most once, has one owner at a time, and has its own back-off."""

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncGenerator, Callable, Hashable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

from msgspec import Struct

K = TypeVar("K", bound=Hashable)
Priority = tuple[Any, ...]

SLACK = 64
"""Outdated entries that are tolerated before they are dropped."""


class Closed(Exception):
    """The queue gives out no more keys."""


class _Waiting(Struct, Generic[K], eq=False):
    """A queued key. Never changed, only replaced: heaps may still hold older entries of the key."""

    key: K
    priority: Priority
    order: int
    """Number of the put that first queued the key: first in, first out."""
    number: int
    """Number of the put that made this entry; unique, so heaps never compare entries."""
    due: float
    """Loop time from which the key may be taken; the time of the put if there was no delay."""


class Queue(Generic[K]):
    """Keys to process: the lowest priority tuple first, then first in, first out.

    Priorities of one queue must be comparable with each other. Not safe across threads.
    """

    def __init__(self, *, base: float, cap: float, random: Callable[[], float]) -> None:
        """`base` and `cap` limit the back-off, in seconds; `random` returns numbers in [0, 1)."""
        self._base = base
        self._cap = cap
        self._random = random
        self._waiting: dict[K, _Waiting[K]] = {}
        self._ready: list[tuple[Priority, int, int, _Waiting[K]]] = []
        self._later: list[tuple[float, int, int, _Waiting[K]]] = []
        self._owned: set[K] = set()
        self._again: dict[K, tuple[Priority, list[float]]] = {}
        """Owned key -> the most urgent priority with which it was put meanwhile, and all its times"""
        self._failures: dict[K, int] = {}
        self._takers: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._puts = 0
        self._closed = False
        self.retries = 0
        """Failures counted so far, over all keys"""

    def __len__(self) -> int:
        """Queued keys, due or backing off; owned keys do not count."""
        return len(self._waiting)

    @property
    def due(self) -> int:
        """Number of keys that can be taken now."""
        now = asyncio.get_running_loop().time()
        return sum(waiting.due <= now for waiting in self._waiting.values())

    def is_due(self, key: K) -> bool:
        """Whether a key can be taken now, or is owned."""
        if key in self._owned:
            return True
        waiting = self._waiting.get(key)
        return waiting is not None and waiting.due <= asyncio.get_running_loop().time()

    @property
    def oldest_age(self) -> float:
        """Seconds since the oldest due key became due; 0 if no key is due."""
        now = asyncio.get_running_loop().time()
        return max(
            (now - waiting.due for waiting in self._waiting.values() if waiting.due <= now), default=0.0
        )

    def put(self, key: K, *, priority: Priority, after: float = 0.0) -> None:
        """Queue a key, to be taken after `after` seconds. Ignored once the queue is closed.

        A key that is already queued keeps its place and gets the more urgent priority and the
        earlier time. A key that is owned is queued again when its owner releases it.
        """
        if self._closed:
            return
        due = asyncio.get_running_loop().time() + after
        if key in self._owned:
            before, times = self._again.get(key, (priority, []))
            self._again[key] = (min(before, priority), [*times, due])
        else:
            self._wait(key, priority, due)

    def wake(self, keys: Iterable[K]) -> None:
        """Make those of the keys that back off due now. Their failures still count."""
        now = asyncio.get_running_loop().time()
        for key in keys:
            if key in self._waiting:
                self._wait(key, self._waiting[key].priority, now)
            elif key in self._again:
                self._again[key][1].append(now)

    def drop(self, unwanted: Callable[[K], bool]) -> list[K]:
        """Take out the queued keys for which `unwanted` holds, without an owner. Returns them."""
        dropped = [key for key in self._waiting if unwanted(key)]
        for key in dropped:
            del self._waiting[key]
        self._sweep()
        return dropped

    def has_seen(self, key: K) -> None:
        """The owner of a key looks at the state now: it was put for nothing if it was put until now, to be
        taken at once. What is put to be taken later, or after this, stays.
        """
        again, now = self._again.pop(key, None), asyncio.get_running_loop().time()
        if again is not None and (later := [due for due in again[1] if due > now]):
            self._again[key] = (again[0], later)

    def failed(self, key: K) -> float:
        """Count a failure of the key. Returns its back-off in seconds: doubling, with jitter."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        self.retries += 1
        # The exponent is capped because 2.0 ** 1024 overflows.
        full = min(self._cap, self._base * 2.0 ** min(count, 64))
        return full * (0.5 + self._random() / 2)

    def forget(self, key: K) -> None:
        """Reset the failures of the key."""
        self._failures.pop(key, None)

    @asynccontextmanager
    async def take(self) -> AsyncGenerator[K, None]:
        """Wait for a key and own it for the block. Raises Closed when no more keys will come.

        Cancelled while waiting: no key is taken. Cancelled inside the block: the key is released
        as if the work were done; the caller decides whether to put it again.
        """
        key = await self._take()
        try:
            yield key
        finally:
            self._owned.discard(key)
            if key in self._again:
                priority, times = self._again.pop(key)
                self._wait(key, priority, min(times))

    def peek(self) -> K | None:
        """The key that `take` would give now; None if there is none. It stays queued."""
        while self._ready and not self._current(self._ready[0][-1]):
            heapq.heappop(self._ready)
        return self._ready[0][-1].key if self._ready else None

    def close(self) -> None:
        """Accept no more puts. Due keys can still be taken; keys that back off are dropped.

        A key that was put while owned is queued again only if it is due.
        """
        self._closed = True
        self._arm()
        for taker in self._takers:
            if not taker.done():
                taker.set_result(None)

    def _wait(self, key: K, priority: Priority, due: float) -> None:
        known = self._waiting.get(key)
        if known is not None:
            priority, due = min(known.priority, priority), min(known.due, due)
            if (priority, due) == (known.priority, known.due):
                return
        self._puts += 1
        waiting = _Waiting(key, priority, known.order if known else self._puts, self._puts, due)
        self._waiting[key] = waiting
        heapq.heappush(self._later, (due, waiting.order, waiting.number, waiting))
        self._arm()

    def _arm(self) -> None:
        """Move due keys to the ready heap, wake a taker for each, and set the timer for the others."""
        loop = asyncio.get_running_loop()
        self._sweep()
        while self._later and self._later[0][0] <= loop.time():
            *_, waiting = heapq.heappop(self._later)
            if self._current(waiting):
                heapq.heappush(self._ready, (waiting.priority, waiting.order, waiting.number, waiting))
                self._wake_taker()
        if self._closed:
            for *_, waiting in self._later:
                if self._current(waiting):
                    del self._waiting[waiting.key]
            self._later.clear()
        due = self._later[0][0] if self._later else None
        if self._timer is not None and self._timer.when() != due:
            self._timer.cancel()
            self._timer = None
        if due is not None and self._timer is None:
            self._timer = loop.call_at(due, self._due)

    def _due(self) -> None:
        """The timer fired."""
        self._timer = None
        self._arm()

    def _sweep(self) -> None:
        """Drop outdated entries when most are, so that memory follows the number of keys."""
        if len(self._later) + len(self._ready) > 2 * len(self._waiting) + SLACK:
            self._later = [entry for entry in self._later if self._current(entry[-1])]
            self._ready = [entry for entry in self._ready if self._current(entry[-1])]
            heapq.heapify(self._later)
            heapq.heapify(self._ready)

    def _current(self, waiting: _Waiting[K]) -> bool:
        return self._waiting.get(waiting.key) is waiting

    async def _take(self) -> K:
        """Own the next key, once it is due. Raises Closed."""
        while True:
            if (key := self.peek()) is not None:
                heapq.heappop(self._ready)
                del self._waiting[key]
                self._owned.add(key)
                return key
            if self._closed:
                raise Closed
            taker = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                if taker.done() and not taker.cancelled():
                    self._wake_taker()  # this call was woken for a key: wake another taker
                raise
            finally:
                if taker in self._takers:
                    self._takers.remove(taker)

    def _wake_taker(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return
