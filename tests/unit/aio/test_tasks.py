"""Tasks that must not end, breaks in long work, and the heartbeat of a loop."""

import asyncio
import gc
import sys
import weakref
from contextlib import suppress
from threading import Event
from typing import Any

import pytest

from reconciler.aio import tasks
from reconciler.aio.tasks import (
    LONGEST,
    LONGEST_PAUSE,
    MOST,
    RECENT,
    SHARE,
    SWITCH_INTERVAL,
    Breaks,
    Closed,
    Ended,
    Heartbeat,
    ShouldContinue,
    Stopped,
    WorkerThread,
    forever,
    unless,
)
from tests.tools.patience import PATIENCE
from tests.tools.virtual_time import VirtualLoop


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


async def test_others_run_after_many_short_steps_at_the_latest():
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    breaks = Breaks()
    for _ in range(3 * MOST):
        await breaks.after_step()
    task.cancel()
    assert turns >= 3


@pytest.mark.parametrize("waited", [True, False])
@pytest.mark.parametrize("shorter", [True, False])
async def test_what_the_work_waits_for_is_no_work(waited: bool, shorter: bool):
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    breaks = Breaks(0.5 * LONGEST) if shorter else Breaks()
    others: list[str] = []
    loop.call_soon(others.append, "ran")
    for _ in range(3):
        loop._now += LONGEST / (6 if shorter else 3)
        if waited:
            breaks.before_step()
        await breaks.after_step()
    assert bool(others) is not waited


async def beats(seconds: float, work: float = 0.0) -> tuple[list[float], float | None]:
    """Lateness of the beats within `seconds`, while the loop is blocked once."""
    late: list[float] = []
    heart = Heartbeat(late.append, every=0.5)
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)

    def hold() -> None:
        loop._now += work

    task = asyncio.create_task(heart.run())
    loop.call_later(0.75, hold)
    await asyncio.sleep(seconds)
    task.cancel()
    return late, heart.last


async def test_a_free_loop_beats_on_time():
    late, last = await beats(2.25)
    assert late == [0.0] * 4
    assert last == 2.0


async def test_a_blocked_loop_beats_late_once():
    late, last = await beats(5.0, work=3.0)
    assert max(late) == 2.75  # it was due a quarter of a second after the loop was blocked
    assert sorted(late)[:-1] == [0.0] * (len(late) - 1)
    assert last is not None


async def test_who_is_cancelled_beats_no_more():
    late: list[float] = []
    task = asyncio.create_task(Heartbeat(late.append, every=0.5).run())
    await asyncio.sleep(1.25)
    task.cancel()
    await asyncio.sleep(2)
    assert late == [0.0, 0.0]


async def test_an_error_of_who_is_told_does_not_end_the_beats():
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))

    def fail(_: float) -> None:
        raise ValueError

    heart = Heartbeat(fail, every=0.5)
    task = asyncio.create_task(heart.run())
    await asyncio.sleep(1.25)
    task.cancel()
    assert heart.last == 1.0
    assert [type(context["exception"]) for context in told] == [ValueError] * 2


async def test_nothing_has_beaten_before_the_first_beat():
    assert (await beats(0.25))[1] is None


# -- A worker thread runs one piece of work at a time, and stops work that is cancelled.


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


@pytest.mark.loopback
async def test_the_loop_goes_on_while_work_is_done():
    worker, go = WorkerThread("test"), Event()
    task = asyncio.create_task(worker.run(lambda _: go.wait(PATIENCE)))
    await asyncio.sleep(0)
    assert worker.busy
    go.set()
    assert await task is True
    assert not worker.busy


@pytest.mark.loopback
async def test_an_error_of_the_work_is_raised_to_the_caller():
    def fail(_: ShouldContinue) -> None:
        raise ValueError("odd")

    worker = WorkerThread("test")
    with pytest.raises(ValueError, match="odd"):
        await worker.run(fail)
    assert not worker.busy


@pytest.mark.loopback
async def test_the_switch_interval_is_short_only_during_work():
    before = sys.getswitchinterval()
    assert await WorkerThread("test").run(lambda _: sys.getswitchinterval()) == pytest.approx(SWITCH_INTERVAL)
    assert sys.getswitchinterval() == before


@pytest.mark.loopback
async def test_work_stops_when_its_caller_is_cancelled():
    worker, begun = WorkerThread("test"), Event()
    task = asyncio.create_task(run_until_cancelled(worker, begun))
    await started(begun)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await idle(worker)
    assert await worker.run(lambda _: "next") == "next"


@pytest.mark.loopback
async def test_work_that_is_cancelled_before_it_begins_never_begins():
    worker, go, begun = WorkerThread("test"), Event(), Event()
    worker._threads.submit(go.wait, PATIENCE)  # as long as the loop does not let go of the interpreter
    task = asyncio.create_task(run_until_cancelled(worker, begun))
    await asyncio.sleep(0)
    assert worker.busy
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not worker.busy
    go.set()
    assert await worker.run(lambda _: "next") == "next"
    assert not begun.is_set()


@pytest.mark.loopback
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


def test_work_that_gives_way_waits_in_proportion_while_others_work(monkeypatch: pytest.MonkeyPatch):
    own, everyone, now, waits = 0.0, 0.0, 0.0, list[float]()
    monkeypatch.setattr(tasks, "thread_time", lambda: own)
    monkeypatch.setattr(tasks, "process_time", lambda: everyone)
    monkeypatch.setattr(tasks, "monotonic", lambda: now)
    cancelled = Event()
    monkeypatch.setattr(cancelled, "wait", waits.append)
    wanted = tasks._Wanted(cancelled)
    for mine, others, later in ((2, 0, 1), (0.4, 1, 1), (0.2, 1, 1), (2, 0, 0), (100, 1, 1), (2, 0, RECENT)):
        own, everyone = own + mine / 1000, everyone + (mine + others) / 1000
        assert wanted()
        now += later
    assert waits == pytest.approx([0.0006 * SHARE, LONGEST_PAUSE])
    cancelled.set()
    assert not wanted()


async def test_an_error_of_work_leaves_no_cycle_behind():
    """Else what its frames hold stays until a full collection, which is rare."""

    class Large:
        pass

    gone = list[object]()

    async def fail() -> None:
        large = Large()
        weakref.finalize(large, gone.append, None)
        raise ZeroDivisionError

    gc.disable()
    try:
        with suppress(ZeroDivisionError):
            await unless(asyncio.Event(), fail())
        await asyncio.sleep(0)
        assert gone
    finally:
        gc.enable()
