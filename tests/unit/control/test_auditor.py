"""Alarms of devices held twice: none by a picture of which one part is newer, and each true one."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from reconciler.aio.queue import Queue
from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.plan import Plan
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.control.audit import Auditor
from reconciler.control.decisions.allocating import Deleted, HeldTwice
from reconciler.control.decisions.declaration import Decision
from reconciler.control.intake import Intake
from reconciler.state.store import Store
from tests.tools.simulation.clock import SimulationLoop
from tests.tools.small_fleet import DRIVER, claim, held
from tests.tools.unit_pictures import key

TWICE = HeldTwice(DeviceID(DRIVER, "n", "d0"), (key("a"), key("b")))


class Picture:
    """What is known, by the watch or by answers, and what is told of it."""

    def __init__(self) -> None:
        self.told: list[Decision] = []
        queue: Queue[Any] = Queue(base=600.0, cap=600.0, random=lambda: 1.0)
        self.intake = Intake(Store(Semantics()), queue, [], self.told.append)

    def watch(self, name: str, version: int, *, holds: bool = True) -> None:
        self.intake.take(Changed("ResourceClaim", known(name, version, holds=holds)))

    def answer(self, name: str, version: int) -> None:
        self.intake.observe(known(name, version, holds=True))

    def gone(self, name: str) -> None:
        self.intake.take(Removed("ResourceClaim", ObjectKey("default", name)))


def known(name: str, version: int, *, holds: bool) -> ResourceClaim:
    raw = claim(name)
    raw["metadata"] |= {"uid": f"uid of {name}", "resourceVersion": str(version)}
    found = read({**raw, "status": held(DRIVER, "n", "d0") if holds else {}})
    assert isinstance(found, ResourceClaim)
    return found


@pytest.fixture
async def picture() -> Picture:
    """`b` was allocated in version 20, as an answer says; the watch has not come to 15 yet, when `a` was."""
    found = Picture()
    found.watch("b", 10, holds=False)
    found.answer("b", 20)
    return found


async def test_a_claim_that_is_gone_by_then_raises_no_alarm(picture: Picture):
    picture.watch("a", 15)
    picture.gone("a")
    picture.watch("c", 25, holds=False)
    assert [type(one) for one in picture.told] == [Deleted]
    assert picture.intake.held_twice == 0
    assert not picture.intake.audit.suspected


async def test_a_claim_that_was_freed_by_then_raises_no_alarm(picture: Picture):
    picture.watch("a", 15)
    picture.watch("a", 16, holds=False)
    picture.watch("b", 20)
    assert picture.told == []


async def test_a_claim_that_is_still_there_raises_it_once_the_watch_is_as_far(picture: Picture):
    picture.watch("a", 15)
    assert picture.told == []
    picture.watch("c", 25, holds=False)
    picture.watch("b", 26)
    assert picture.told == [TWICE]


async def test_what_the_watch_tells_in_order_is_told_without_delay():
    found = Picture()
    found.watch("a", 15)
    found.watch("b", 20)
    assert found.told == [TWICE]


async def test_who_lets_go_of_what_it_held_beside_another_tells_of_it(picture: Picture):
    """Also if the watch tells that it is over before the server's answer does."""
    picture.watch("a", 15)
    with picture.intake.audit.ended_by(key("b")):
        picture.watch("b", 21, holds=False)
        assert picture.told == []
    assert picture.told == [TWICE]
    picture.watch("c", 25, holds=False)
    assert picture.told == [TWICE]
    assert picture.intake.held_twice == 0


async def test_what_cannot_be_let_go_of_is_suspected_still(picture: Picture):
    picture.watch("a", 15)
    with suppress(ConnectionError), picture.intake.audit.ended_by(key("b")):
        picture.watch("c", 17, holds=False)
        raise ConnectionError
    assert picture.told == []
    picture.watch("c", 25, holds=False)
    assert picture.told == [TWICE]


async def test_what_is_told_already_is_not_told_again_when_it_ends():
    found = Picture()
    found.watch("a", 15)
    found.watch("b", 20)
    with found.intake.audit.ended_by(key("b")):
        found.watch("b", 21, holds=False)
    assert found.told == [TWICE]


@pytest.mark.parametrize("applied", [False, True])
async def test_what_a_former_leader_still_assumes_raises_no_alarm_unless_it_was_written(applied: bool):
    """Its successor gave the device to `b` as the plan for `a` waited for an answer."""
    found = Picture()
    found.watch("a", 10, holds=False)
    allocation = known("a", 15, holds=True).allocation
    assert allocation is not None
    plan = Plan(key("a"), "uid of a", "10", "n", allocation)
    found.intake.assume(plan)
    found.watch("b", 20)
    found.intake.audit.confirm(found.intake.audit.suspected)
    assert found.told == []
    if applied:
        found.watch("a", 21)
    else:
        found.intake.forget(plan)
    assert found.told == ([TWICE] if applied else [])
    assert found.intake.held_twice == applied


def test_of_a_watch_that_says_no_more_the_auditor_does_not_wait_for_ever():
    """News of our own writes are not passed on, so that nothing may come after one."""
    with asyncio.Runner(loop_factory=SimulationLoop) as runner:

        async def run() -> None:
            found = Picture()
            intake = found.intake
            auditor = Auditor(intake.changed, intake.store, found.told.append, 1.0, intake.audit)
            looking = asyncio.create_task(auditor.run())
            found.watch("b", 10, holds=False)
            found.answer("b", 20)
            await asyncio.sleep(0.9)
            found.watch("a", 15)
            await asyncio.sleep(1.0)  # less than the auditor's second after it looked
            assert found.told == []
            await asyncio.sleep(0.2)
            assert found.told == [TWICE]
            looking.cancel()

        runner.run(run())
