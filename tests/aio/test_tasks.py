"""A task that was to run for ever may not end quietly."""

import asyncio

import pytest

from reconciler.aio.tasks import Ended, forever


async def test_returning_is_an_error_that_names_the_task():
    with pytest.raises(Ended, match="watch of pods"):
        await forever("watch of pods", asyncio.sleep(1))


async def test_cancellation_passes_through():
    task = asyncio.create_task(forever("watch", asyncio.sleep(1e9)))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def test_its_own_error_passes_through():
    async def fail() -> None:
        raise ValueError("odd")

    with pytest.raises(ValueError, match="odd"):
        await forever("watch", fail())
