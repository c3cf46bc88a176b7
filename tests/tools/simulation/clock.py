"""Virtual time in which every replica may have a clock of its own, and can be killed at any step."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar
from dataclasses import dataclass
from typing import Any

from tests.tools.virtual_time import VirtualLoop

GRACE = 0.05
"""Seconds of real time for which an answer that must come is waited for before the clock jumps."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Shows `start + rate * t` at the true time `t`, in seconds."""

    rate: float = 1.0
    start: float = 0.0

    def shows(self, true: float) -> float:
        return self.start + self.rate * true

    def when(self, shown: float) -> float:
        """The true time at which this clock surely shows a time: rounded up, or a timer would fire early."""
        return (shown - self.start) / self.rate * (1 + 1e-12) + 1e-9


OURS: ContextVar[Clock | None] = ContextVar("clock", default=None)
"""The clock of the replica to which the running task belongs. None: true time."""


class SimulationLoop(VirtualLoop):
    """Timers of a task run by the clock of its context. `kill_at` calls somebody after so many steps.

    With `sockets` the clock jumps only when nothing comes in: what one end of a connection on the
    loopback device sent is there for the other end at once, or nearly.
    """

    _ready: deque[Any]  # type: ignore[assignment]

    def __init__(self, *, sockets: bool = False) -> None:
        super().__init__()
        self._sockets = sockets
        self.awaited = 0
        """Answers that are on their way through sockets"""
        self._steps = 0
        self._alarm: tuple[int, Callable[[], object]] | None = None

    @property
    def true_time(self) -> float:
        return self._now

    def time(self) -> float:
        clock = OURS.get()
        return self._now if clock is None else clock.shows(self._now)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        clock = OURS.get()
        true = when if clock is None else clock.when(when)
        return super().call_at(true, callback, *args, context=context)

    def kill_at(self, steps: int, alarm: Callable[[], object]) -> None:
        """Call `alarm` once so many more callbacks have run, between two of them. One that is set stays."""
        if self._alarm is None:
            self._alarm = (self._steps + steps, alarm)

    def _run_once(self) -> None:
        if self._sockets and not self._ready:
            # Most that comes is there by now. Real time must pass only where something must come.
            for patience in (0, GRACE if self.awaited else 0):
                if not self._ready:
                    self._process_events(self._selector.select(patience))  # type: ignore[attr-defined]
        due = len(self._ready)
        self._steps += due
        if self._alarm is not None and self._steps >= self._alarm[0]:
            at, alarm = self._alarm
            self._alarm = None
            handle = asyncio.Handle(alarm, (), self)
            self._ready.insert(max(due - (self._steps - at), 0), handle)
        super()._run_once()
