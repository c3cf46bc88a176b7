"""What the loop makes of each need and each answer, whatever kind of unit it serves."""

import asyncio
from collections import deque
from collections.abc import Callable

import pytest

from reconciler.control.handler import Act, Idle, Later
from reconciler.control.loop import FORGET_SECONDS, Reconciler
from reconciler.errors import Retry
from tests.tools.scripted_loop import ASK, BASE, CAP, GIVEN, Scripted, Stage, refused, stuck
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, held, node, pod
from tests.tools.unit_pictures import claim_unit, pod_unit, remove

FREE = {**claim("other"), "status": held(DRIVER, "n", "d0")}


async def test_a_turn_resolves_asks_decides_records_assumes_and_writes_in_that_order():
    handler = Scripted()
    stage = Stage(handler)
    await stage.run(1.0, claim("a"))
    assert handler.done == [
        "warm up", "resolve", "next", "decide", "record", "assume", "write", "close",
    ]  # fmt: skip
    assert stage.reconciler.reconciles == 1


async def test_one_name_ties_answer_journal_and_write_together():
    handler = Scripted(answers=[refused(), GIVEN])
    stage = Stage(handler)
    await stage.run(BASE + 1, claim("a"))
    assert stage.answered == [("22222-1", "DevicesInUse"), ("22222-2", "")]
    assert stage.recorded == ["22222-1", "22222-2"]
    assert handler.written == [("22222-2", BASE)]
    assert [decision.decision_id for decision in stage.told] == ["22222-1"]


@pytest.mark.parametrize("need", [Idle(), Act(lambda: asyncio.sleep(0))], ids=["idle", "act"])
async def test_a_unit_that_needs_no_devices_is_no_longer_pending(need: Idle | Act):
    stage = Stage(Scripted(needs=[stuck("ClaimNotFound"), need]))
    await stage.run(1.0, claim("a"))
    assert stage.reconciler.pending.by_reason() == {"ClaimNotFound": 1}
    stage = Stage(Scripted(needs=[stuck("ClaimNotFound"), need]))
    async with stage.at_work():
        stage.news(claim("a"))
        await asyncio.sleep(1)
        stage.intake.put(claim_unit("a"))
        await asyncio.sleep(1)
    assert stage.reconciler.pending.by_reason() == {"ClaimNotFound": 0}


async def test_what_is_stuck_is_reported_once_for_each_reason_and_not_asked_again_by_itself():
    stage = Stage(Scripted(needs=[stuck("ClaimNotFound"), stuck("ClaimNotFound"), stuck("ClaimDeleting")]))
    async with stage.at_work():
        for _ in range(4):
            stage.intake.put(claim_unit("a"))
            await asyncio.sleep(1000)
    assert stage.reasons == ["ClaimNotFound", "ClaimDeleting"]
    assert stage.reconciler.reconciles == 4


async def test_other_tasks_run_between_turns_that_wait_for_nothing():
    stage = Stage(Scripted(needs=[Idle()] * 20))
    seen = set()
    async with stage.at_work():
        for number in range(20):
            stage.intake.put(claim_unit(f"c{number}"))
        while stage.reconciler.reconciles < 20:
            seen.add(stage.reconciler.reconciles)
            await asyncio.sleep(0)
    assert len(seen) > 5


async def test_the_first_handler_that_serves_a_unit_has_its_turn():
    passing, serving, other = Scripted(needs=[None]), Scripted(), Scripted()
    await Stage(passing, serving, other).run(1.0, claim("a"))
    assert passing.done == ["warm up", "resolve", "next", "close"]
    assert "write" in serving.done
    assert other.done == ["warm up", "resolve", "close"]


async def test_what_a_pod_with_devices_needs_next_is_done_in_the_turn_that_wrote_them():
    released = []

    async def release() -> None:
        released.append(len(handler.written))

    handler = Scripted(needs=[ASK, Act(release), Idle()])
    stage = Stage(Scripted(needs=[None]), handler)
    await stage.run(1.0, pod("p"))
    assert released == [1]
    assert stage.reconciler.reconciles == 1


@pytest.mark.parametrize(
    ("needs", "after", "turns"),
    [([Idle()], 0.0, 1), ([ASK, Idle()], 0.0, 2), ([Idle()], 5.0, 2)],
    ids=["that need nothing", "that need more", "that are put for later"],
)
async def test_what_a_turn_changed_itself_brings_another_one_only_to_pods(
    needs: list[Idle | str], after: float, turns: int
):
    """The answers to its writes queue the unit again, as the events of others do."""

    async def release() -> None:
        stage.intake.put(pod_unit("p"), after=after)

    stage = Stage(Scripted(needs=[ASK, Act(release), *needs]))
    await stage.run(10.0, pod("p"))
    assert stage.reconciler.reconciles == turns


async def test_what_keeps_a_pod_with_devices_waiting_is_reported():
    stage = Stage(Scripted(needs=[ASK, stuck("NotBound")]))
    await stage.run(1.0, pod("p"))
    assert stage.reasons == ["NotBound"]


async def test_a_pod_that_another_handler_serves_by_then_is_left_to_its_next_turn():
    first, second = Scripted(needs=[None, Idle()]), Scripted(needs=[ASK, Act(not_wanted)])
    await Stage(first, second).run(1.0, pod("p"))
    assert second.done.count("write") == 1
    assert second.done.count("next") == 1


async def not_wanted() -> None:
    raise AssertionError("another handler serves the unit")


async def test_a_gate_that_cannot_be_removed_is_tried_again_and_its_devices_are_not_written_again():
    tried = []

    async def fail_once() -> None:
        tried.append(asyncio.get_running_loop().time())
        if len(tried) == 1:
            raise Retry("busy")

    handler = Scripted(needs=[ASK, Act(fail_once), Act(fail_once), Idle()])
    await Stage(handler).run(BASE + 1, pod("p"))
    assert tried == [0.0, BASE]
    assert handler.done.count("write") == 1


async def test_a_refusal_is_asked_again_after_a_back_off_that_doubles_up_to_its_cap():
    handler = Scripted(answers=[refused()])
    stage = Stage(handler)
    await stage.run(400, claim("a"))
    assert handler.times("decide") == [0, BASE, 30, 70, 70 + CAP, 70 + 2 * CAP, 70 + 3 * CAP, 70 + 4 * CAP]
    assert stage.reasons == ["DevicesInUse"]
    assert stage.reconciler.pending.by_reason() == {"DevicesInUse": 1}


@pytest.mark.parametrize(
    ("room", "freed"), [(True, BASE / 2), (False, BASE)], ids=["room helps", "room does not"]
)
async def test_a_device_set_free_wakes_a_refusal_that_room_may_answer(room: bool, freed: float):
    handler = Scripted(answers=[refused(room=room), GIVEN])
    stage = Stage(handler)
    stage.news(node("n"), devices("n", "d0"), FREE)
    async with stage.at_work():
        stage.news(claim("a"))
        await asyncio.sleep(BASE / 2)
        remove(stage.intake, "ResourceClaim", "other")
        await asyncio.sleep(BASE)
    assert handler.times("write", claim_unit("a")) == [freed]


async def test_news_of_a_class_wakes_those_who_want_it_alone():
    handler = Scripted(answers=[refused(room=False), refused(room=False), GIVEN])
    stage = Stage(handler)
    async with stage.at_work():
        stage.news(claim("a"))
        await asyncio.sleep(1)
        stage.news(device_class("other"))
        await asyncio.sleep(1)
        stage.news(device_class("gpu"))
        await asyncio.sleep(1)
    assert handler.times("decide") == [0, 2]


CHANGES = [
    pytest.param(lambda stage: remove(stage.intake, "ResourceClaim", "other"), True, id="a freed device"),
    pytest.param(lambda stage: stage.news(node("m"), devices("m", "d0")), True, id="a new node"),
    pytest.param(lambda stage: stage.news(device_class("gpu")), True, id="its class"),
    pytest.param(lambda stage: stage.news(claim("b")), False, id="what it does not wait for"),
]


@pytest.mark.parametrize(("change", "helps"), CHANGES)
async def test_a_change_between_a_refusal_and_the_rest_of_its_turn_brings_one_turn_more(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[Stage], object], *, helps: bool
):
    """The first refusal, of which nobody knew before. Refused again, it waits for the back-off."""
    handler = Scripted(answers=[refused()])
    stage = Stage(handler)
    decide = Reconciler._decide_all

    def overtaken(self: Reconciler) -> None:
        decide(self)
        if handler.done.count("decide") == 1:
            change(stage)

    monkeypatch.setattr(Reconciler, "_decide_all", overtaken)
    stage.news(node("n"), devices("n", "d0"), device_class("gpu", driver="old"), FREE)
    async with stage.at_work():
        await asyncio.sleep(1)
        handler.calls.clear()
        stage.news(claim("a"))
        await asyncio.sleep(BASE - 1)
    assert handler.times("decide", claim_unit("a")) == ([1, 1] if helps else [1])


@pytest.mark.parametrize(("change", "helps"), CHANGES)
async def test_a_change_during_a_search_that_is_refused_by_the_state_before_brings_one_turn_more(
    change: Callable[[Stage], object], *, helps: bool
):
    handler = Scripted(answers=[None, refused()])
    stage = Stage(handler)
    stage.news(node("n"), devices("n", "d0"), device_class("gpu", driver="old"), FREE)
    async with stage.at_work():
        await asyncio.sleep(1)
        handler.calls.clear()
        handler.answers = deque([None, refused()])
        stage.news(claim("a"))
        await asyncio.sleep(1)
        stage.intake.waiting.mark(claim_unit("a"))
        change(stage)
        await asyncio.sleep(1)
        stage.intake.put(claim_unit("a"))  # the thread has its answer
        await asyncio.sleep(BASE - 1)
    assert handler.times("decide", claim_unit("a")) == ([1, 3, 3] if helps else [1, 3])


async def test_refusals_do_not_slow_down_the_write_that_follows_them():
    """The third answer is a grant whose write fails: its back-off begins from the start."""
    handler = Scripted(answers=[refused(), refused(), GIVEN], writes=[ZeroDivisionError(), lambda: None])
    await Stage(handler).run(100, claim("a"))
    assert handler.times("write") == [30, 30 + BASE]


async def test_room_that_is_made_takes_the_place_of_waiting():
    handler = Scripted(answers=[refused()], withdraws=[True])
    stage = Stage(handler)
    await stage.run(1000, claim("a"))
    assert handler.times("decide") == [0]
    assert stage.reasons == []
    assert len(stage.reconciler.pending) == 0


async def test_later_is_then_and_nothing_is_told():
    handler = Scripted(answers=[Later(), Later(7.0), GIVEN])
    stage = Stage(handler)
    await stage.run(10, claim("a"))
    assert handler.times("decide") == [0, 0, 7]
    assert stage.answered == [("22222-1", "")]


async def test_no_answer_leaves_it_to_the_handler_when_the_unit_comes_back():
    handler = Scripted(answers=[None])
    stage = Stage(handler)
    await stage.run(1000, claim("a"))
    assert handler.times("decide") == [0]
    assert stage.answered == []


async def test_nothing_is_assumed_after_writes_were_paused():
    """It was answered meanwhile, so the answer counts; the unit gets its turn when writes are enabled."""
    handler = Scripted()
    stage = Stage(handler)
    stage.intake.pause.set("setting", "maintenance")
    async with stage.at_work():
        stage.news(claim("a"))
        await asyncio.sleep(50)
        assert handler.times("record") == [0]
        assert "assume" not in handler.done
        assert stage.intake.pause.held == 1
        stage.intake.pause.set("setting", "")
        await asyncio.sleep(1)
    assert handler.times("write") == [50]


async def test_no_turn_begins_while_the_fence_is_down():
    handler = Scripted()
    stage = Stage(handler)
    async with stage.at_work():
        await asyncio.sleep(1)
        stage.fence.lower()
        stage.news(claim("a"))
        await asyncio.sleep(5)
        assert "next" not in handler.done
        await stage.fence.raise_()
        await asyncio.sleep(1)
    assert handler.times("next") == [6]


async def test_a_turn_under_way_ends_and_no_other_begins_once_it_was_stopped():
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def write() -> None:
        begun.set()
        await go_on.wait()

    handler = Scripted(needs=[Act(write)])
    stage = Stage(handler)
    async with stage.at_work():
        stage.news(claim("a"), claim("b"))
        await begun.wait()
        stage.reconciler.stop()
        go_on.set()
    assert handler.done.count("next") == 1
    assert stage.reconciler.reconciles == 1


async def test_who_still_waits_for_the_fence_goes_home_when_stopped():
    stage = Stage(Scripted())
    worker = asyncio.create_task(stage.reconciler.work())
    await asyncio.sleep(1)
    stage.reconciler.stop()
    await worker
    assert stage.reconciler.reconciles == 0


async def test_a_standby_forgets_the_units_of_deleted_objects_and_a_leader_gives_them_a_last_turn():
    stage = Stage(Scripted())
    queue, forgetting = stage.intake.queue, asyncio.create_task(stage.reconciler.forget_gone())
    for number in range(100):
        stage.news(claim(f"c{number}"), pod(f"p{number}", f"c{number}"))
        remove(stage.intake, "Pod", f"p{number}")
        remove(stage.intake, "ResourceClaim", f"c{number}")
    stage.news(claim("a"))
    assert len(queue) == 201
    await asyncio.sleep(FORGET_SECONDS)
    await asyncio.sleep(0)
    assert (len(queue), queue.peek()) == (1, claim_unit("a"))
    async with stage.at_work():
        await asyncio.sleep(1)
        remove(stage.intake, "ResourceClaim", "a")
        await asyncio.sleep(1)
    assert stage.reconciler.reconciles == 2
    forgetting.cancel()


async def test_claims_of_a_pod_that_went_during_its_turn_get_turns_of_their_own():
    """They left the rest to the write that was under way when the pod went."""
    handler = Scripted(needs=[ASK, Idle()])
    stage = Stage(handler)
    handler.writes = deque([lambda: remove(stage.intake, "Pod", "p")])
    allocated = {**claim("a"), "status": held(DRIVER, "n", "d0")}
    await stage.run(1.0, allocated, pod("p", "a"))
    assert handler.times("next", pod_unit("p"))
    assert handler.times("next", claim_unit("a"))
    assert handler.calls[1].unit == pod_unit("p")


async def test_a_unit_that_is_queued_before_another_is_decided_has_its_turn_first(
    monkeypatch: pytest.MonkeyPatch,
):
    """The other was taken from the queue, and waits until the state is built."""
    handler = Scripted()
    stage = Stage(handler)
    decide = Reconciler._decide_all

    def overtaken(self: Reconciler) -> None:
        if handler.done.count("resolve") == 1:
            stage.news(claim("a"))
        decide(self)

    monkeypatch.setattr(Reconciler, "_decide_all", overtaken)
    async with stage.at_work():
        stage.news(claim("b"))
        await asyncio.sleep(1)
    assert [call.unit for call in handler.calls if call.what == "write"] == [claim_unit("a"), claim_unit("b")]
