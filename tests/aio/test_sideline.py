"""A thread beside the loop: one piece of work at a time, and none that nobody waits for."""

import asyncio
import sys
from threading import Event

import pytest

from reconciler.aio.sideline import TURN, Closed, Sideline, Wanted
from tests.patience import PATIENCE

pytestmark = pytest.mark.loopback  # threads need real time


async def until_asked_to_end(lane: Sideline, begun: Event) -> object:
    def work(wanted: Wanted) -> None:
        begun.set()
        while wanted():
            pass

    return await lane.run(work)


async def started(begun: Event) -> None:
    assert await asyncio.to_thread(begun.wait, PATIENCE)


async def idle(lane: Sideline) -> None:
    async with asyncio.timeout(PATIENCE):
        while lane.busy:  # noqa: ASYNC110 - the thread tells nobody
            await asyncio.sleep(0)


async def test_the_loop_goes_on_while_work_is_done():
    lane, go = Sideline("test"), Event()
    task = asyncio.create_task(lane.run(lambda _: go.wait(PATIENCE)))
    await asyncio.sleep(0)
    assert lane.busy
    go.set()
    assert await task is True
    assert not lane.busy


async def test_an_error_of_the_work_comes_to_who_waits():
    def fail(_: Wanted) -> None:
        raise ValueError("odd")

    lane = Sideline("test")
    with pytest.raises(ValueError, match="odd"):
        await lane.run(fail)
    assert not lane.busy


async def test_threads_take_short_turns_only_while_there_is_work():
    before = sys.getswitchinterval()
    assert await Sideline("test").run(lambda _: sys.getswitchinterval()) == pytest.approx(TURN)
    assert sys.getswitchinterval() == before


async def test_work_is_told_that_nobody_waits_any_more():
    lane, begun = Sideline("test"), Event()
    task = asyncio.create_task(until_asked_to_end(lane, begun))
    await started(begun)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await idle(lane)
    assert await lane.run(lambda _: "next") == "next"


async def test_closing_sends_home_who_waits_and_ends_the_work():
    lane, begun = Sideline("test"), Event()
    task = asyncio.create_task(until_asked_to_end(lane, begun))
    await started(begun)
    lane.close()
    with pytest.raises(Closed):
        await task
    await idle(lane)
    with pytest.raises(Closed):
        await lane.run(lambda _: None)
