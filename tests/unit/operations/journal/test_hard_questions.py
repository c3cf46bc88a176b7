"""Questions that were given up can be asked again from their files."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from threading import Event, active_count
from time import sleep
from typing import Any

import pytest
from structlog.testing import capture_logs

from reconciler.allocation.dra.budget import UNLIMITED
from reconciler.api.objects.plan import Granted, Reason, Unsatisfied
from reconciler.control.decider import Decider, Refusal
from reconciler.control.decisions.allocating import Waits
from reconciler.control.handler import Decide
from reconciler.control.ownership import Ownership
from reconciler.operations.journal.hard_questions import MOST_KEPT, HardQuestions
from tests.tools.allocation_world import World, decide
from tests.tools.builders import (
    claim,
    counter_slice,
    device,
    distinct,
    held,
    hold,
    node,
    request,
    resource_slice,
)
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.virtual_time import VirtualLoop

SLICES = [
    resource_slice(
        "s",
        [device(f"d{at}", {"v": at // 2}, draws={"g": {"m": 1}}) for at in range(6)],
        slices=2,
        nodeName="n",
    ),
    counter_slice("t", {"g": {"m": 4}}, slices=2, nodeName="n"),
]
ASKED = claim("c", request("r0"), request("r1"), constraints=[distinct("d/v")])
WORLD = World(SLICES, [ASKED], [held("h", hold("d0", pool="p"))], nodes=[node("n", zone="a")])


def find(world: World, folder: Path, steps: int) -> Granted | Refusal:
    kept = HardQuestions(folder)
    decider = Decider(Ownership(alone=True), steps=steps, gave_up=kept.keep)
    answer = decider.find(Decide(tuple(world.wanted()), None), world.snapshot(), UNLIMITED)
    if kept.writing is not None:
        kept.writing.result()
    return answer


def asked_again(path: Path) -> World:
    items = json.loads(path.read_text())["items"]
    of = {kind: [one for one in items if one["kind"] == kind] for kind in (one["kind"] for one in items)}
    claims = of["ResourceClaim"]
    return World(
        of["ResourceSlice"],
        [one for one in claims if "status" not in one],
        [one for one in claims if "status" in one],
        of["DeviceClass"],
        of["Node"],
    )


def test_a_question_that_was_given_up_is_kept_once_and_has_the_same_answers(tmp_path: Path):
    folder = tmp_path / "hard"
    answers = [find(WORLD, folder, steps=1) for _ in range(2)]
    assert [answer.reason for answer in answers if isinstance(answer, Refusal)] == [Reason.GAVE_UP] * 2
    (path,) = folder.iterdir()
    again = asked_again(path)
    refused = decide(again, steps=1)
    assert isinstance(refused, Unsatisfied)
    assert refused.reason is Reason.GAVE_UP
    granted, expected = decide(again), decide(WORLD)
    assert isinstance(granted, Granted)
    assert isinstance(expected, Granted)
    assert [plan.allocation for plan in granted.plans] == [plan.allocation for plan in expected.plans]


def test_nothing_else_is_kept(tmp_path: Path):
    assert isinstance(find(WORLD, tmp_path, steps=100), Granted)
    full = replace(WORLD, claims=[claim("c", request("r0", 9))])
    assert isinstance(find(full, tmp_path, steps=100), Refusal)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_full_or_not_writable_changes_no_answer(tmp_path: Path):
    for number in range(MOST_KEPT):
        (tmp_path / f"{number}.json").touch()
    find(WORLD, tmp_path, steps=1)
    assert len(list(tmp_path.iterdir())) == MOST_KEPT
    (tmp_path / "file").touch()
    with capture_logs() as lines:
        answer = find(WORLD, tmp_path / "file", steps=1)
    assert isinstance(answer, Refusal)
    assert [line["event"] for line in lines] == ["hard question not kept"]


def test_one_thread_writes_and_questions_that_come_meanwhile_are_not_kept(tmp_path: Path):
    go, written = Event(), list[str]()

    class Slow(HardQuestions):
        def _write(self, text: str) -> None:
            go.wait()
            written.append(text)

    kept, before = Slow(tmp_path), active_count()
    decider = Decider(Ownership(alone=True), steps=1, gave_up=kept.keep)
    for _ in range(5):
        decider.find(Decide(tuple(WORLD.wanted()), None), WORLD.snapshot(), UNLIMITED)
    assert active_count() <= before + 1
    go.set()
    assert kept.writing is not None
    kept.writing.result()
    assert len(written) == 1


@pytest.mark.parametrize("is_set", [True, False])
def test_a_process_keeps_them_only_in_a_folder_that_is_set(tmp_path: Path, is_set: bool):
    async def give_up() -> None:
        cluster = Cluster([*WORLD.classes, *WORLD.nodes, *SLICES, ASKED])
        flags: dict[str, Any] = {"keep_hard_questions": str(tmp_path / "hard")} if is_set else {}
        journal = str(tmp_path / "journal")
        async with reconciling(cluster, all_claims=True, search_steps=1, journal=journal, **flags) as running:
            await running.told(Waits, reason=Reason.GAVE_UP)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(give_up())
    while is_set and not list(tmp_path.glob("hard/*.json")):
        sleep(0.01)  # a thread writes it
    assert {one.parent.name for one in tmp_path.rglob("*.json")} == ({"hard"} if is_set else set())
