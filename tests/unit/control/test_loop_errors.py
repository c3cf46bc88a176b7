"""What a turn ends with, and when the next one comes."""

import asyncio
from collections import deque

import pytest
from structlog.testing import capture_logs

from reconciler.control.decisions.allocating import HeldBack, WritesPaused, WritesResumed
from reconciler.control.handler import Idle
from reconciler.errors import Conflict, Gone, Inconsistent, Paused, Rejected, Retry, Undecided
from tests.tools.scripted_loop import ASK, BASE, Scripted, Stage
from tests.tools.small_fleet import claim, pod
from tests.tools.unit_pictures import claim_unit, key, pod_unit


@pytest.mark.parametrize(
    ("error", "level", "event", "cause"),
    [
        pytest.param(Conflict("changed"), "info", "reconcile will be retried", "conflict", id="conflict"),
        pytest.param(Retry("busy"), "info", "reconcile will be retried", "retry", id="retry"),
        pytest.param(Undecided("no answer"), "info", "reconcile will be retried", "retry", id="undecided"),
        pytest.param(Rejected("invalid"), "warning", "write rejected", None, id="rejected"),
        pytest.param(ZeroDivisionError(), "error", "reconcile failed", None, id="unexpected"),
    ],
)
async def test_a_write_that_fails_is_logged_and_tried_again_after_its_back_off(
    error: Exception, level: str, event: str, cause: str | None
):
    handler = Scripted(writes=[error, error, lambda: None])
    stage = Stage(handler)
    with capture_logs() as lines:
        await stage.run(100, claim("a"))
    assert handler.times("write") == [0, BASE, 30]
    found = [(line["log_level"], line["event"], line["pause"]) for line in lines]
    assert found == [(level, event, BASE), (level, event, 20)]
    assert lines[0].get("cause") == cause
    assert stage.reconciler.failures == (2 if isinstance(error, ZeroDivisionError) else 0)
    assert stage.reconciler.reconciles == 3


async def test_after_a_success_the_back_off_begins_from_the_start():
    handler = Scripted(writes=[Retry("busy"), Retry("busy"), lambda: None, Retry("busy"), lambda: None])
    stage = Stage(handler)
    async with stage.at_work():
        stage.news(claim("a"))
        await asyncio.sleep(100)
        stage.intake.put(claim_unit("a"))
        await asyncio.sleep(100)
    assert handler.times("write") == [0, BASE, 30, 100, 100 + BASE]


@pytest.mark.parametrize("error", [Conflict("changed", after=300), Retry("busy", after=300)])
async def test_a_server_that_says_when_to_come_back_is_obeyed(error: Retry):
    handler = Scripted(writes=[error, lambda: None])
    await Stage(handler).run(400, claim("a"))
    assert handler.times("write") == [0, 300]


@pytest.mark.parametrize(
    ("error", "at"),
    [
        pytest.param(Conflict("changed"), 1, id="conflict: the sooner the better"),
        pytest.param(Retry("busy"), BASE, id="retry"),
        pytest.param(Rejected("invalid"), BASE, id="rejected"),
        pytest.param(ZeroDivisionError(), BASE, id="unexpected"),
    ],
)
async def test_news_does_not_shorten_the_back_off_of_what_it_may_be_the_echo_of(error: Exception, at: float):
    handler = Scripted(writes=[error, lambda: None])
    stage = Stage(handler)
    async with stage.at_work():
        stage.news(claim("a"))
        await asyncio.sleep(1)
        stage.intake.put(claim_unit("a"))
        await asyncio.sleep(100)
    assert handler.times("write") == [0, at]


async def test_what_is_gone_is_left_to_the_watch():
    handler = Scripted(writes=[Gone("deleted")])
    stage = Stage(handler)
    await stage.run(1000, claim("a"))
    assert handler.times("write") == [0]
    assert stage.reconciler.reconciles == 1


async def test_what_a_pause_held_back_comes_again_when_writes_are_enabled():
    handler = Scripted()
    stage = Stage(handler)

    def shut() -> None:
        stage.intake.pause.set("setting", "maintenance")
        raise Paused("on the way to the server")

    handler.writes = deque([shut, lambda: None])
    async with stage.at_work():
        stage.news(claim("a"))
        await asyncio.sleep(500)
        assert handler.times("write") == [0]
        stage.intake.pause.set("setting", "")
        await asyncio.sleep(1)
    assert stage.told == [WritesPaused("maintenance"), HeldBack(key("a"), None), WritesResumed(1)]
    assert handler.times("write") == [0, 500]


async def test_what_was_held_back_while_writes_were_just_enabled_comes_again_at_once():
    handler = Scripted(writes=[Paused("on the way to the server"), lambda: None])
    stage = Stage(handler)
    await stage.run(1, claim("a"))
    assert handler.times("write") == [0, 0]
    assert stage.told == []


async def test_an_error_while_resolving_keeps_the_unit_from_deciding():
    handler = Scripted(unresolved=[Undecided("no answer")])
    await Stage(handler).run(BASE + 1, claim("a"))
    assert handler.times("resolve") == [0, BASE]
    assert handler.times("decide") == [BASE]


async def test_one_unit_that_fails_does_not_keep_others_from_their_turns():
    handler = Scripted(answers=[ZeroDivisionError()])
    stage = Stage(handler)
    await stage.run(1, claim("a"), claim("b"))
    assert stage.reconciler.failures == 2


async def test_a_broken_promise_of_our_own_ends_the_work():
    stage = Stage(Scripted(writes=[Inconsistent("evidence")]))
    with pytest.raises(ExceptionGroup) as found:
        await stage.run(1, claim("a"))
    assert isinstance(found.value.exceptions[0], Inconsistent)


async def test_units_that_share_a_claim_with_one_that_failed_get_a_turn_too():
    """They found it taken care of, and nothing else would bring them back."""
    handler = Scripted(needs=[Idle(), Idle(), Idle(), ASK, Idle()], writes=[Retry("busy")])
    stage = Stage(handler)
    async with stage.at_work():
        stage.news(pod("p", "a"), pod("q", "a"), claim("a"))
        await asyncio.sleep(1)
        stage.intake.put(pod_unit("p"))
        await asyncio.sleep(BASE + 1)
    again = 1 + BASE
    assert handler.times("write") == [1]
    for unit, turns in ((pod_unit("p"), [0, 1, again]), (pod_unit("q"), [0, again])):
        assert handler.times("next", unit) == turns
    assert handler.times("next", claim_unit("a")) == [0, again]


async def test_so_they_do_after_one_that_found_an_object_gone():
    """It may have had devices for the claim that they share, and gave them back."""
    handler = Scripted(needs=[Idle(), Idle(), Idle(), ASK, Idle()], writes=[Gone("deleted")])
    stage = Stage(handler)
    async with stage.at_work():
        stage.news(pod("p", "a", "b"), pod("q", "a"), claim("a"))
        await asyncio.sleep(1)
        stage.intake.put(pod_unit("p"))
        await asyncio.sleep(BASE + 1)
    assert handler.times("next", pod_unit("p")) == [0, 1]
    assert handler.times("next", pod_unit("q")) == [0, 1 + BASE]


async def test_so_they_do_with_one_that_a_pause_held_back():
    handler = Scripted(needs=[Idle(), Idle(), Idle(), ASK, Idle()])
    stage = Stage(handler)

    def shut() -> None:
        stage.intake.pause.set("setting", "maintenance")
        raise Paused("on the way to the server")

    handler.writes = deque([shut])
    async with stage.at_work():
        stage.news(pod("p", "a"), pod("q", "a"), claim("a"))
        await asyncio.sleep(1)
        stage.intake.put(pod_unit("p"))
        await asyncio.sleep(500)
        assert stage.intake.pause.held == 1
        stage.intake.pause.set("setting", "")
        await asyncio.sleep(1)
    assert handler.times("next", pod_unit("p")) == [0, 1, 501]
    assert handler.times("next", pod_unit("q")) == [0, 501]
