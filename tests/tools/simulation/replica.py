"""One process of the reconciler: started, killed, started again."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from contextvars import Context, copy_context
from random import Random
from typing import Any, cast

from reconciler import app
from reconciler.control.decisions.declaration import Decision
from reconciler.errors import Inconsistent, ReconcilerError
from reconciler.settings import Settings
from tests.tools.simulation.clock import OURS, Clock
from tests.tools.simulation.faults import Cut, Faulty

_BELOW = tuple(
    f"reconciler.{name}"
    for name in ("aio", "cluster.client", "cluster.guard", "election.door", "embedded", "observe")
)
"""Modules that only carry what others wait for"""
RESTART = 2.0
"""Seconds after which a process that ended by itself is started again, as a kubelet does"""


class Replica:
    """Runs the reconciler on a clock of its own, and starts it again when it ends by itself."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        connect: Callable[[], Faulty],
        complain: Callable[[str], None],
        started: Callable[[], None],
        heard: Callable[[Decision], None],
    ) -> None:
        """`connect` makes a transport for one life; `complain` hears what must not happen.

        `heard` gets every decision. That a device is held twice is true only of what it has seen so far.
        """
        self._heard = heard
        self._settings = settings
        self._clock = clock
        self._connect = connect
        self._complain = complain
        self._started = started
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._transport: Faulty | None = None
        self.severed = Cut.NOTHING

    @property
    def dies(self) -> bool:
        """Whether it was killed and not started again yet."""
        return self._transport is not None and self._transport.dead

    def start(self) -> None:
        context = copy_context()
        context.run(OURS.set, self._clock)
        self._task = asyncio.get_running_loop().create_task(self._live(), name="replica", context=context)

    def cut(self, off: Cut) -> None:
        self.severed = off
        if self._transport is not None:
            self._transport.cut = off

    def kill(self) -> None:
        """As kill -9 does: nothing is sent from now on. What is on the wire may still arrive."""
        if self._task is not None and self._transport is not None:
            self._transport.dead = True
            self._task.cancel()

    async def killed(self) -> None:
        """Kill it, and wait until nothing of it is left."""
        self.kill()
        await self._gone()

    async def stopped(self) -> None:
        """End it in order, as SIGTERM does."""
        self._stop.set()
        await self._gone()

    async def _gone(self) -> None:
        if self._task is not None:
            with suppress(asyncio.CancelledError):
                await asyncio.shield(asyncio.wait([self._task]))
            self._task = self._transport = None

    async def _live(self) -> None:
        self._stop = asyncio.Event()
        while not self._stop.is_set():
            self._transport = self._connect()
            self._transport.cut = self.severed
            self._started()
            try:
                await app.run(self._settings, self._transport, stop=self._stop, on_decision=self._heard)
            except ReconcilerError as exc:
                # Without its server it cannot begin. A broken promise of its own is another matter.
                if isinstance(exc, Inconsistent):
                    self._complain(f"the reconciler ended: {exc!r}")
            except BaseExceptionGroup as group:
                if not self._transport.dead:
                    self._complain(f"the reconciler ended: {group!r} {group.exceptions!r}")
            except Exception as exc:
                self._complain(f"the reconciler ended: {exc!r}")
            if not self._stop.is_set():
                await asyncio.sleep(RESTART)


def awaits(tasks: Iterable[asyncio.Task[Any]]) -> Iterator[str]:
    """Where in the reconciler each of the tasks is waiting: the innermost place that knows what for."""
    for task in tasks:
        place, waits = "", cast("Any", task.get_coro())
        while waits is not None:
            frame = getattr(waits, "cr_frame", None)
            module = frame.f_globals["__name__"] if frame is not None else ""
            if frame is not None and module.startswith("reconciler.") and not module.startswith(_BELOW):
                place = f"{module}:{frame.f_lineno} {frame.f_code.co_qualname}"
            waits = getattr(waits, "cr_await", None)
        if place:
            yield place


def drawn_clock(random: Random) -> Clock:
    return Clock(rate=random.choice((1.0, 0.95, 1.05)), start=random.uniform(0, 1000))


def bounded_clock(random: Random) -> Clock:
    """As wrong as clocks of replicas may be, and as right as they can be: 1 % slow, right, or 1 % fast.

    `Terms.clock_error` is that bound. Where the clocks began plays no part.
    """
    return Clock(rate=random.choice((0.99, 1.0, 1.01)), start=random.uniform(0, 1000))


def outside() -> Context:
    """Where no replica's clock counts."""
    context = copy_context()
    context.run(OURS.set, None)
    return context
