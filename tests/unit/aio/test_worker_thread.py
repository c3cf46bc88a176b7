"""A worker thread runs one piece of work at a time, and stops work that is cancelled."""

import asyncio
import sys
from threading import Event

import pytest

from reconciler.aio.worker_thread import SWITCH_INTERVAL, Closed, ShouldContinue, WorkerThread
from tests.tools.patience import PATIENCE

pytestmark = pytest.mark.loopback  # threads need real time


async def run_until_cancelled(worker: WorkerThread, begun: Event) -> object:
    def work(should_continue: ShouldContinue) -> None:
        begun.set()
        while should_continue():
            pass

    return await worker.run(work)


async def started(begun: Event) -> None:
    assert await asyncio.to_thread(begun.wait, PATIENCE)


async def idle(worker: WorkerThread) -> None:
    async with asyncio.timeout(PATIENCE):
        while worker.busy:  # noqa: ASYNC110 - the thread sends no event
            await asyncio.sleep(0)


async def test_the_loop_goes_on_while_work_is_done():
    worker, go = WorkerThread("test"), Event()
    task = asyncio.create_task(worker.run(lambda _: go.wait(PATIENCE)))
    await asyncio.sleep(0)
    assert worker.busy
    go.set()
    assert await task is True
    assert not worker.busy


async def test_an_error_of_the_work_is_raised_to_the_caller():
    def fail(_: ShouldContinue) -> None:
        raise ValueError("odd")

    worker = WorkerThread("test")
    with pytest.raises(ValueError, match="odd"):
        await worker.run(fail)
    assert not worker.busy


async def test_the_switch_interval_is_short_only_during_work():
    before = sys.getswitchinterval()
    assert await WorkerThread("test").run(lambda _: sys.getswitchinterval()) == pytest.approx(SWITCH_INTERVAL)
    assert sys.getswitchinterval() == before


async def test_work_stops_when_its_caller_is_cancelled():
    worker, begun = WorkerThread("test"), Event()
    task = asyncio.create_task(run_until_cancelled(worker, begun))
    await started(begun)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await idle(worker)
    assert await worker.run(lambda _: "next") == "next"


async def test_closing_raises_in_the_caller_and_ends_the_work():
    worker, begun = WorkerThread("test"), Event()
    task = asyncio.create_task(run_until_cancelled(worker, begun))
    await started(begun)
    worker.close()
    with pytest.raises(Closed):
        await task
    await idle(worker)
    with pytest.raises(Closed):
        await worker.run(lambda _: None)
