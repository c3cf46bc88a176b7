"""A task that must run forever may not end silently."""

import asyncio

import pytest

from reconciler.aio.tasks import Ended, Stopped, forever, unless


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


async def test_work_ends_before_it_is_told_to_stop():
    assert await unless(asyncio.Event(), asyncio.sleep(5, "done")) == "done"


async def test_work_that_is_told_to_stop_is_cancelled_and_cleans_up():
    stop, ended = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    asyncio.get_running_loop().call_later(3, stop.set)
    with pytest.raises(Stopped):
        await unless(stop, hang())
    assert ended.is_set()


async def test_an_error_of_the_work_is_raised_unchanged():
    async def fail() -> None:
        raise ValueError("odd")

    with pytest.raises(ValueError, match="odd"):
        await unless(asyncio.Event(), fail())


async def test_cancelling_the_caller_cancels_the_work():
    task = asyncio.create_task(unless(asyncio.Event(), asyncio.sleep(1e9)))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == {asyncio.current_task()}
