"""Guards for tasks."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, Never, TypeVar

T = TypeVar("T")


class Ended(Exception):
    """A task that was to run for ever returned."""


async def forever(name: str, work: Awaitable[object]) -> Never:
    """Run what must not end. Returning raises Ended, which takes the task group down with it.

    What `work` raises, cancellation included, passes through.
    """
    await work
    raise Ended(f"{name} returned, but was to run until cancelled")


class Stopped(Exception):
    """What was waited for is not wanted any more."""


async def unless(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
    """What `work` returns or raises. Raises Stopped if `stop` is set before that; the work is cancelled.

    Cancelled: so is the work.
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
