"""Claims that ask for different things are decided ahead of their turns, and get what they would get then."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from reconciler.allocation.alignment.preferences import JOINT
from reconciler.allocation.dra.budget import Budget, StepLimit, Unfinished
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.plan import Granted
from reconciler.api.objects.semantics import Semantics
from reconciler.control import one_by_one
from reconciler.control.decider import Decider, Refusal
from reconciler.control.loop import MOST_ONE_BY_ONE
from reconciler.control.one_by_one import OneByOne
from reconciler.control.planner import Decide
from reconciler.control.units import Unit
from reconciler.operations.journal.entries import Header
from reconciler.operations.journal.recording import Recorder
from reconciler.operations.journal.replaying import replay
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.nominations import HeldPlace, Nomination, of_claim
from tests.tools.burst_loop import OURS, BurstStage
from tests.tools.small_fleet import DRIVER, Object, claim, device_class, devices, node, pod
from tests.tools.unit_pictures import claim_unit, pod_unit, remove


def quick(_: ObjectKey) -> float:
    """Every write takes a second."""
    return 1.0


def stage_of(**gpus: int) -> BurstStage:
    """Nodes with so many devices each."""
    stage = BurstStage(quick)
    stage.news(device_class(), *[made for name, count in gpus.items() for made in machine(name, count)])
    return stage


def machine(name: str, gpus: int) -> list[Object]:
    return [node(name), devices(name, *[f"d{n}" for n in range(gpus)])]


def claims(*counts: int) -> list[Object]:
    """`c0`, `c1` and so on, for so many devices each."""
    return [claim(f"c{n}", count) for n, count in enumerate(counts)]


def ahead(stage: BurstStage) -> list[Unit]:
    return [one.grant.question.unit for one in stage.reconciler.ahead]


def units(*numbers: int) -> list[Unit]:
    return [claim_unit(f"c{n}") for n in numbers]


def placed(stage: BurstStage) -> list[list[str]]:
    """`node/device` of the devices of each claim, in the order of the writes."""
    return [
        [f"{plan.node}/{result.device}" for result in plan.allocation.devices.results]
        for _, granted in stage.written
        for plan in granted.plans
    ]


async def test_claims_that_ask_for_different_things_are_decided_ahead_and_written_in_their_order():
    stage = stage_of(n0=4, n1=4)
    stage.news(*claims(1, 2, 1, 3, 1))
    async with stage.at_work(1):
        await asyncio.sleep(0.5)
        assert ahead(stage) == units(1, 2, 3, 4)
        await asyncio.sleep(9)
    assert [unit for unit, _ in stage.written] == units(0, 1, 2, 3, 4)
    assert placed(stage) == [
        ["n0/d0"], ["n0/d1", "n0/d2"], ["n0/d3"], ["n1/d0", "n1/d1", "n1/d2"], ["n1/d3"],
    ]  # fmt: skip


async def test_ever_more_are_decided_ahead_but_not_without_end():
    count = 4 * MOST_ONE_BY_ONE
    stage = stage_of(n0=2 * count)
    stage.news(*claims(*[1 + n % 2 for n in range(count)]))
    most = 0
    async with stage.at_work(1):
        for _ in range(count + 1):
            await asyncio.sleep(1)
            most = max(most, len(ahead(stage)))
    assert len(stage.written) == count
    assert MOST_ONE_BY_ONE - 1 <= most <= MOST_ONE_BY_ONE


async def test_all_together_take_no_more_steps_than_one_decision_may(monkeypatch: pytest.MonkeyPatch):
    """The event loop does nothing else meanwhile. A claim on the first node takes two steps."""
    monkeypatch.setattr(one_by_one, "QUICK_STEPS", 5)
    stage = stage_of(n0=9)
    stage.news(*claims(1, 2, 1, 2, 1))
    async with stage.at_work(1):
        await asyncio.sleep(0.5)
        assert ahead(stage) == units(1, 2)
        await asyncio.sleep(9)
    assert [unit for unit, _ in stage.written] == units(0, 1, 2, 3, 4)


async def test_nothing_is_decided_ahead_while_devices_are_held_for_somebody():
    """Whose devices they are is asked anew for each claim."""
    stage = stage_of(n0=4)
    held = HeldPlace("n0", (DeviceID(DRIVER, "n0", "d1"),))
    stage.news(claim("c0"), claim("c2", 2), claim("waits", 9))
    nominee = of_claim(ObjectKey("default", "waits"))
    stage.intake.store.nominate(Nomination(nominee, (held,), 0, 99.0, "2026-01-01T12:00:00Z"))
    async with stage.at_work(1):
        await asyncio.sleep(0.5)
        assert ahead(stage) == []
        await asyncio.sleep(2)
    assert {place for devices in placed(stage) for place in devices} == {"n0/d0", "n0/d2", "n0/d3"}


SEVEN = claims(1, 2, 1, 2, 1, 2, 1, 2, 1)
"""More than seven workers take at once"""


async def test_units_that_other_workers_have_taken_come_first():
    """When a backlog begins, every worker takes a unit and waits until the state is built."""
    stage = stage_of(n0=4)
    stage.news(claim("before", 4))
    async with stage.at_work(7):
        await asyncio.sleep(1.5)
        stage.news(*machine("n1", 8), *machine("n2", 8), *SEVEN)
        await asyncio.sleep(0.5)
        assert [unit for unit, _ in stage.written[1:]] == units(*range(7))
        assert ahead(stage) == units(7, 8)  # nothing was taken back, so there was no rest
        await asyncio.sleep(9)
    assert [len(devices) for devices in placed(stage)[1:]] == [1, 2, 1, 2, 1, 2, 1, 2, 1]


PREFERRING = claim("c2", 2)
PREFERRING["metadata"]["annotations"] = {JOINT: "[]"}


@pytest.mark.parametrize(
    ("third", "written"),
    [
        ([claim("c2", 9)], []),
        ([PREFERRING], [claim_unit("c2")]),
        ([claim("c2"), pod("c2-pod", "c2")], [pod_unit("c2-pod")]),
    ],
    ids=["does not fit", "has preferences", "is of a pod"],
)
async def test_what_needs_a_closer_look_has_its_own_turn(third: list[Object], written: list[Unit]):
    stage = stage_of(n0=4, n1=4)
    stage.news(*claims(1, 2), *third, claim("c3", 2))
    async with stage.at_work(1):
        await asyncio.sleep(0.5)
        assert ahead(stage) == units(1)
        await asyncio.sleep(9)
    assert [unit for unit, _ in stage.written] == [*units(0, 1), *written, *units(3)]


async def test_a_claim_that_is_decided_with_its_pod_is_passed_over():
    stage = stage_of(n0=5)
    stage.news(claim("c0"), claim("c1"), claim("c2", 2), pod("p1", "c1"))
    async with stage.at_work(1):
        await asyncio.sleep(0.5)
        assert ahead(stage) == units(2)
        await asyncio.sleep(9)
    assert placed(stage) == [["n0/d0"], ["n0/d1", "n0/d2"], ["n0/d3"]]


@pytest.mark.parametrize("what", ["freed", "deleted", "cordoned", "slice", "paused"])
async def test_after_a_change_the_rest_is_decided_in_its_turn(what: str):
    stage = stage_of(n0=4, n1=4)
    stage.news(*claims(1, 2, 1, 2, 1))
    async with stage.at_work(1):
        await asyncio.sleep(1.5)
        assert ahead(stage) == units(2, 3, 4)
        match what:
            case "freed":
                remove(stage.intake, "ResourceClaim", "c0")
            case "deleted":
                remove(stage.intake, "ResourceClaim", "c3")
            case "cordoned":
                stage.news({**node("n1"), "spec": {"unschedulable": True}})
            case "slice":
                stage.news(devices("n0", "d0", "d1", "d2"))
            case "paused":
                stage.intake.pause.set("test", "people look")
        await asyncio.sleep(1)
        if what in ("freed", "slice", "cordoned", "paused"):
            assert len(ahead(stage)) < 3
        stage.intake.pause.set("test", "")
        await asyncio.sleep(20)
    first = [["n0/d0"], ["n0/d1", "n0/d2"]]
    expected = {
        "freed": [["n0/d0"], ["n1/d0", "n1/d1"], ["n0/d3"]],
        "deleted": [["n0/d3"], ["n1/d0"]],
        "cordoned": [["n0/d3"]],
        "slice": [["n1/d0"], ["n1/d1", "n1/d2"], ["n1/d3"]],
        "paused": [["n0/d3"], ["n1/d0", "n1/d1"], ["n1/d2"]],
    }
    assert placed(stage) == first + expected[what]


async def test_the_journal_decides_each_claim_again_in_the_same_way(tmp_path: Path):
    recorder = Recorder(tmp_path, Header("test", Semantics(), OURS, 10_000))
    stage = BurstStage(quick, journal=recorder.decided, store=recorder.store)
    stage.news(device_class(), *machine("n0", 5), *machine("n1", 5), *claims(1, 2, 1, 2, 1, 2))
    async with stage.at_work(1):
        await asyncio.sleep(2.5)
        assert ahead(stage) == units(3, 4, 5)
        remove(stage.intake, "ResourceClaim", "c0")
        await asyncio.sleep(20)
    recorder.close()
    tally = replay(tmp_path)
    assert (tally.different, tally.unknown) == ([], 0)
    assert tally.same >= 6 + 3  # three were taken back and decided again


async def test_an_internal_error_about_a_claim_concerns_that_claim_alone(monkeypatch: pytest.MonkeyPatch):
    find = Decider.find

    def failing(self: Decider, question: Any, *rest: Any) -> Any:
        if question.claims[0].key.name == "c2":
            raise ZeroDivisionError
        return find(self, question, *rest)

    monkeypatch.setattr(Decider, "find", failing)
    stage = stage_of(n0=8)
    stage.news(*claims(1, 2, 1, 2, 1))
    async with stage.at_work(1):
        await asyncio.sleep(9)
    assert [unit for unit, _ in stage.written] == units(0, 1, 3, 4)
    assert stage.reconciler.failures == 1


async def test_nothing_is_decided_ahead_while_a_claim_whose_turn_has_come_is_searched_for(
    monkeypatch: pytest.MonkeyPatch,
):
    find, searching, found = Decider.find, threading.Event(), threading.Event()

    def long_for_the_first(
        self: Decider, question: Decide, snapshot: Snapshot, budget: Budget
    ) -> Granted | Refusal:
        if question.claims[0].key.name == "c0":
            if isinstance(budget, StepLimit):
                raise Unfinished("c0")
            searching.set()
            found.wait(10)
        return find(self, question, snapshot, budget)

    monkeypatch.setattr(Decider, "find", long_for_the_first)
    stage = stage_of(n0=3)
    stage.news(*claims(2, 1, 2))
    async with stage.at_work(2):
        await asyncio.sleep(0.3)
        assert searching.is_set()
        assert ahead(stage) == []
        found.set()
        await asyncio.sleep(5)
    assert {unit for unit, _ in stage.written} == set(units(0, 1))


async def test_what_is_tried_in_vain_is_tried_ever_more_rarely(monkeypatch: pytest.MonkeyPatch):
    tried: list[ObjectKey] = []

    def counting(self: OneByOne, question: Decide, budget: StepLimit) -> Granted | None:
        tried.append(question.claims[0].key)
        return None

    stage = stage_of(n0=64)
    stage.news(*claims(*[1 + n % 2 for n in range(40)]))
    monkeypatch.setattr(OneByOne, "_answer", counting)
    async with stage.at_work(1):
        await asyncio.sleep(50)
    assert len(stage.written) == 40
    assert 1 < len(tried) < 8
