"""Guards for tasks."""

from collections.abc import Awaitable
from typing import Never


class Ended(Exception):
    """A task that was to run for ever returned."""


async def forever(name: str, work: Awaitable[object]) -> Never:
    """Run what must not end. Returning raises Ended, which takes the task group down with it.

    What `work` raises, cancellation included, passes through.
    """
    await work
    raise Ended(f"{name} returned, but was to run until cancelled")
