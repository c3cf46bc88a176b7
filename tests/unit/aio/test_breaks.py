"""Long work on the loop lets others run, and does not stop for every short step."""

import asyncio

from reconciler.aio.breaks import MOST, Breaks


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
