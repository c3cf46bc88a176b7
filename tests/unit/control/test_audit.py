"""Alarms of devices held twice: none by a picture of which one part is newer, and each true one. And whose
doing it is that an allocation is gone.
"""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from reconciler.aio.queue import Queue
from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.claims import ALLOCATED_AT, ResourceClaim, mark
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.plan import Plan
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.control.audit import Auditor, ReclaimedByScheduler
from reconciler.control.decisions.allocating import Deleted, HeldTwice, Reclaimed
from reconciler.control.decisions.declaration import Decision
from reconciler.control.intake import Intake
from reconciler.state.store import Store
from tests.tools.simulation.clock import SimulationLoop
from tests.tools.small_fleet import DRIVER, Object, claim, device_class, devices, held, node, pod
from tests.tools.unit_pictures import intake, key, remove

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
    assert picture.intake.audit.doubles == 0
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
    assert picture.intake.audit.doubles == 0


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
    assert found.intake.audit.doubles == applied


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


STAMP = "2026-01-01T00:00:00Z"  # as `held` writes it


def ours(name: str) -> Object:
    """A claim that we allocated."""
    made = {**claim(name), "status": held(DRIVER, "n0", "d0", on="n0")}
    typed: Any = read(made)
    made["metadata"]["annotations"] = {ALLOCATED_AT: mark(STAMP, typed.allocation)}
    return made


def told_after(*pods: Object, reserved_for: str = "") -> list[str]:
    """The pods that are reported when the allocation of a claim that these pods name is gone."""
    made = ours("a")
    if reserved_for:
        consumer = {"resource": "pods", "name": reserved_for, "uid": f"uid of {reserved_for}"}
        made["status"]["reservedFor"] = [consumer]
    named = [
        {**one, "metadata": {**one["metadata"], "uid": f"uid of {one['metadata']['name']}"}} for one in pods
    ]
    found = intake(device_class(), node("n0"), devices("n0", "d0"), made, *named)
    told: list[Any] = []
    reclaimed = ReclaimedByScheduler(found.store, found.roster, found.placement, told.append, frozenset())
    held_before = found.store.claims[key("a")]
    nothing = held_before.status.model_copy(update={"allocation": None, "reserved_for": ()})
    freed = held_before.model_copy(update={"status": nothing})
    reclaimed.note(freed)
    warned = [one.pod.name for one in told if isinstance(one, Reclaimed)]
    assert (freed in reclaimed) == bool(warned or reserved_for)
    assert len(told) == 1, "either a warning, or a line that it was deallocated"
    return warned


WAITS, BOUND = pod("p1", "a", gates=()), pod("p0", "a", gates=(), nodeName="n0")


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([WAITS], ["p1"], id="kube-scheduler decides a pod without the gate"),
        pytest.param([pod("p1", "a")], [], id="but not a gated one"),
        pytest.param([BOUND], [], id="nor one that is bound"),
        pytest.param([BOUND, WAITS], ["p1"], id="a bound one has ended when another waits"),
    ],
)
async def test_only_what_kube_scheduler_can_have_removed_is_left_to_it(
    pods: list[Object], expected: list[str]
):
    assert told_after(*pods) == expected


async def test_a_claim_that_its_pod_had_reserved_is_left_alone_without_a_warning():
    """Its pod was bound, and has probably ended: both may be told after the claim."""
    assert told_after(WAITS, reserved_for="p1") == []
    assert told_after(WAITS, reserved_for="") == ["p1"]


async def test_nothing_is_kept_of_a_claim_that_is_deleted():
    found = intake(device_class(), node("n0"), devices("n0", "d0"), ours("a"), WAITS)
    held_before = found.store.claims[key("a")]
    nothing = held_before.status.model_copy(update={"allocation": None})
    freed = held_before.model_copy(update={"status": nothing})
    found.take(Changed("ResourceClaim", freed))
    assert freed in found.reclaimed
    remove(found, "ResourceClaim", "a")
    assert freed not in found.reclaimed
