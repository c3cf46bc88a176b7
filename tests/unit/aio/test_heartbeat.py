"""Beats come at a fixed interval and report how late they are. Time is virtual."""

import asyncio
from typing import Any

from reconciler.aio.tasks import Heartbeat
from tests.tools.virtual_time import VirtualLoop


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
