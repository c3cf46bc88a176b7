"""Wrappers for tasks that must not end, or that end on an event."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, Never, TypeVar

T = TypeVar("T")


class Ended(Exception):
    """A task that must run forever returned."""


async def forever(name: str, work: Awaitable[object]) -> Never:
    """Run work that must not end. If it returns, raise Ended, which cancels the task group.

    Exceptions of `work`, including cancellation, are passed on.
    """
    await work
    raise Ended(f"{name} returned, but must run until cancelled")


class Stopped(Exception):
    """The stop event was set before the work ended."""


async def unless(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
    """Return or raise what `work` does. If `stop` is set first, cancel the work and raise Stopped.

    If the caller is cancelled, the work is cancelled too.
    """
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        working.cancel()
        stopping.cancel()
        await asyncio.wait((working, stopping))
    if working.cancelled():
        raise Stopped
    return working.result()
