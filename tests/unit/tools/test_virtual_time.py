"""The clock of the tests: exact, free, and never hanging."""

import asyncio

import pytest

from tests.tools.virtual_time import VirtualLoop


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_an_hour_takes_exactly_an_hour():
    before = now()
    await asyncio.sleep(3600)
    assert now() - before == 3600


async def test_a_timer_that_was_cancelled_does_not_move_the_clock():
    async with asyncio.timeout(100):
        await asyncio.sleep(1)
    await asyncio.sleep(0.5)
    assert now() == 1.5


async def test_time_stands_still_while_anything_can_run():
    asyncio.get_running_loop().call_later(5, lambda: None)
    for _ in range(100):
        await asyncio.sleep(0)
    assert now() == 0


async def test_work_in_a_thread_is_waited_for():
    assert await asyncio.to_thread(lambda: 7) == 7


def test_a_deadlock_is_an_error():
    """Found at once, instead of by whoever kills the test run."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner, pytest.raises(RuntimeError, match="deadlock"):
        runner.run(asyncio.Event().wait())
