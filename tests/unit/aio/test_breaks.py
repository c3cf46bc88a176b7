"""Long work on the loop lets others run, and does not stop for every short step."""

import asyncio

import pytest

from reconciler.aio.tasks import LONGEST, MOST, Breaks
from tests.tools.virtual_time import VirtualLoop


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
