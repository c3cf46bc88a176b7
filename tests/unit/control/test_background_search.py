"""What takes long is worked on beside the loop, and the unit has its answer in a later turn."""

import asyncio
from threading import Event

import pytest

from reconciler.aio import tasks
from reconciler.allocation.dra.budget import UNLIMITED, Budget, SelectorsNotRun, Unfinished
from reconciler.api.objects.changes import Recorded
from reconciler.api.objects.plan import Granted
from reconciler.control import background_search
from reconciler.control.background_search import LONGEST_PATIENCE, BackgroundSearch
from reconciler.control.background_search import PATIENCE as PATIENCE_SECONDS
from reconciler.control.decider import Decider, Refusal
from reconciler.control.handler import Decide
from reconciler.control.inputs import Asked
from reconciler.control.intake import Intake
from reconciler.control.planner import Planner
from reconciler.control.units import Unit
from reconciler.control.waiting import Wants
from reconciler.state.devices.snapshot import Snapshot
from tests.tools.burst_loop import OURS
from tests.tools.patience import PATIENCE
from tests.tools.small_fleet import claim, device_class, devices, node
from tests.tools.unit_pictures import claim_unit, intake, put

pytestmark = pytest.mark.loopback  # threads need real time


class Slow(Decider):
    """Raises for a budget on the loop what it is told."""

    raises: Exception | None = None

    def answer(self, question: Decide, snapshot: Snapshot, budget: Budget = UNLIMITED) -> Granted | Refusal:
        if self.raises is not None:
            raise self.raises
        return super().answer(question, snapshot, budget)


class Stage:
    """Two nodes, claims, and the search for them."""

    def __init__(self, *claims: str) -> None:
        objects = [
            device_class(),
            node("a"),
            devices("a", "d0"),
            node("b"),
            devices("b", "d0"),
            *map(claim, claims),
        ]
        self.asked: list[Unit] = []
        """In the journal"""
        self.intake: Intake = intake(*objects, ours=OURS, journal=self._record)
        roster, placement = self.intake.roster, self.intake.placement
        self.planner = Planner(self.intake.store, roster, placement, OURS, self.intake.reclaimed)
        self.decider = Slow(OURS, steps=100)
        self.sampled: list[Granted | Refusal] = []
        self.search = BackgroundSearch(
            self.intake, self.planner, self.decider, lambda _, answer: self.sampled.append(answer)
        )

    def _record(self, what: Recorded, _: Intake) -> None:
        if isinstance(what, Asked):
            self.asked += what.units

    def answer(self, unit: Unit) -> Granted | Refusal | None:
        question = self.planner.next(unit)
        assert isinstance(question, Decide)
        return self.search.answer(unit, question)

    async def turn(self) -> Unit:
        """The next unit that is due."""
        async with asyncio.timeout(PATIENCE), self.intake.queue.take() as unit:
            return unit


async def test_the_unit_whose_selectors_never_ran_has_its_answer_in_its_next_turn():
    stage = Stage("c")
    stage.decider.raises = SelectorsNotRun()
    assert stage.answer(await stage.turn()) is None
    assert not stage.search.is_free_for(claim_unit("c"))
    stage.decider.raises = None
    assert isinstance(stage.answer(await stage.turn()), Granted)
    stage.search.close()


@pytest.mark.parametrize("rate", [0.0, 1.0, 100.0])
async def test_others_wait_for_the_selectors_of_the_first_but_not_for_long(
    rate: float, monkeypatch: pytest.MonkeyPatch
):
    """Longer where a machine gives the process little time: `rate` is its share of it."""
    go_on, loop = Event(), asyncio.get_running_loop()
    began = loop.time()
    monkeypatch.setattr(tasks, "process_time", lambda: rate * loop.time())
    monkeypatch.setattr(background_search, "_run_selectors", lambda *_: go_on.wait(10))
    stage = Stage("c", "d")
    stage.decider.raises = SelectorsNotRun()
    assert stage.answer(await stage.turn()) is None
    stage.decider.raises = None
    unit = await stage.turn()
    assert unit == claim_unit("d")
    assert stage.answer(unit) is None
    assert await stage.turn() == unit  # when patience is over
    assert loop.time() - began >= (PATIENCE_SECONDS if rate else LONGEST_PATIENCE)
    assert isinstance(stage.answer(unit), Granted)
    go_on.set()
    assert await stage.turn() == claim_unit("c")
    stage.search.close()


async def test_a_long_search_answers_in_a_later_turn():
    stage = Stage("c")
    stage.decider.raises = Unfinished()
    assert stage.answer(await stage.turn()) is None
    assert stage.asked == [claim_unit("c")], "in the state in which the search began"
    assert isinstance(stage.answer(await stage.turn()), Granted)
    assert stage.asked == [claim_unit("c")]
    assert stage.sampled == [], "it was decided from an earlier state"
    stage.search.close()


async def test_an_answer_that_is_outdated_is_looked_for_again():
    stage = Stage("c")
    stage.decider.raises = Unfinished()
    assert stage.answer(await stage.turn()) is None
    put(stage.intake, {**node("a"), "spec": {"unschedulable": True}})
    found = None
    while found is None:
        found = stage.answer(await stage.turn())
    assert isinstance(found, Granted)
    assert found.node == "b"
    assert len(stage.asked) == 2
    stage.search.close()


async def test_what_changed_since_the_search_counts_for_a_refusal_that_is_outdated(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(background_search, "REPEATS", 1)
    stage = Stage("c")
    stage.decider.raises = Unfinished()
    for name in "ab":
        put(stage.intake, {**node(name), "spec": {"unschedulable": True}})
    assert stage.answer(await stage.turn()) is None
    put(stage.intake, node("a"))
    found = None
    while found is None:
        found = stage.answer(await stage.turn())
    assert isinstance(found, Refusal)
    assert stage.intake.waiting.missed(claim_unit("c"), Wants(frozenset(), room=False))
    stage.search.close()


async def test_an_internal_error_of_a_search_is_raised_in_the_turn_of_its_unit(
    monkeypatch: pytest.MonkeyPatch,
):
    def find(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Decider, "find", find)
    stage = Stage("c")
    stage.decider.raises = Unfinished()
    assert stage.answer(await stage.turn()) is None
    unit = await stage.turn()
    with pytest.raises(ZeroDivisionError):
        stage.answer(unit)
    stage.search.close()
