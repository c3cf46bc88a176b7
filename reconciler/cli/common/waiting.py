"""Waits for a server. Whoever waits imports asyncio: commands on files need none of it."""

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine until it ends, and return its result."""
    import asyncio  # noqa: PLC0415 - see above

    return asyncio.run(work)
