"""A plan to evict pods is carried out only while all that it rests on stays as it was, and within budgets."""

import asyncio
import gzip
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.aio.tasks import ShouldContinue
from reconciler.api.objects.changes import Refused
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.validation.served_kinds import BUDGET, POD
from reconciler.app import evicting as evicting_parts
from reconciler.app.moving import RoomPlanner
from reconciler.control.decisions.allocating import Waits
from reconciler.control.decisions.every import (
    Evicted,
    Nominated,
    NominationUsed,
    RoomPlanAborted,
    RoomPlanned,
)
from reconciler.control.relocation import preemptor
from reconciler.control.relocation.evictor import KnownBudgets
from reconciler.control.relocation.relocator import RoomPlan, RoomQuestion
from tests.tools.patience import PATIENCE
from tests.tools.preempting import (
    budget,
    evicting,
    fleet,
    important,
    placed_before,
    small,
    with_finalizer,
    with_label,
    without_finalizers,
)
from tests.tools.running_reconciler import Cluster
from tests.tools.small_fleet import claim, devices, node, pod


async def test_nobody_leaves_any_more_when_the_pod_gets_devices_elsewhere():
    """The first pod that leaves takes its time; meanwhile a node with free devices arrives."""
    cluster = small()
    async with evicting(cluster) as running:
        await fleet(running, cluster)
        cluster.api.update(POD, "default", "low0", with_finalizer)
        cluster.load(claim("wanted", 2, managed=False), important("high", "wanted"))
        await running.heard(Evicted)
        cluster.load(node("b"), devices("b", "d0", "d1"))
        await cluster.until(lambda: not cluster.gated("high"))
        await running.heard(NominationUsed)
        cluster.api.update(POD, "default", "low0", without_finalizers)
        cluster.load(claim("last", 9))
        await running.heard(Waits, counts=lambda one: any(key.name == "last" for key in one.claims))
    assert len(running.of(Evicted)) == 1
    assert cluster.phase("low1") == "Running"


async def test_nobody_else_leaves_once_a_budget_cannot_be_read(monkeypatch: pytest.MonkeyPatch):
    """Nobody knows which pods it protects. The reason why the plan ends is said."""
    known: list[KnownBudgets] = []

    class Seen(KnownBudgets):
        def __init__(self) -> None:
            super().__init__()
            known.append(self)

    monkeypatch.setattr(evicting_parts, "KnownBudgets", Seen)
    cluster = small()
    async with evicting(cluster) as running:
        await fleet(running, cluster)
        cluster.api.update(POD, "default", "low0", with_finalizer)
        cluster.load(claim("wanted", 2, managed=False), important("high", "wanted"))
        await running.heard(Evicted)
        known[0].take(Refused("PodDisruptionBudget", ObjectKey("default", "broken"), "spec is broken"))
        cluster.api.update(POD, "default", "low0", without_finalizers)
        (aborted,) = await running.heard(RoomPlanAborted)
    assert aborted.why.startswith("PodDisruptionBudget default/broken cannot be read")
    assert len(running.of(Evicted)) == 1


def relabel(cluster: Cluster) -> None:
    """The pods that could leave get another label: who knows which budget covers them now."""
    for name in ("low0", "low1"):
        cluster.api.update(POD, "default", name, with_label)


def share(cluster: Cluster) -> None:
    """Another pod needs the same claim: who knows whether it fits there, too."""
    cluster.load(important("also", "wanted"))


@pytest.mark.loopback
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (relabel, r"pod default/low\d changed"),
        (share, "pod default/also, which shares a claim, came or went"),
        (
            lambda cluster: cluster.api.update(POD, "default", "beside", with_label),
            "pod default/beside changed",
        ),
        (
            lambda cluster: cluster.api.delete(POD, "default", "beside"),
            "pod default/beside, which shares a claim, came or went",
        ),
    ],
    ids=["victims", "one more shares", "label of one that shares", "one less shares"],
)
async def test_a_plan_is_dropped_if_what_it_rests_on_changes_while_it_is_checked(
    change: Callable[[Cluster], object], why: str, monkeypatch: pytest.MonkeyPatch
):
    planned, changed = threading.Event(), threading.Event()

    class Slow(RoomPlanner):
        """The second plan, which checks the first, takes its time."""

        plans = 0

        def plan(self, question: RoomQuestion, wanted: ShouldContinue) -> RoomPlan:
            found = super().plan(question, wanted)
            Slow.plans += 1
            if Slow.plans == 2:
                planned.set()
                changed.wait(PATIENCE)
            return found

    monkeypatch.setattr(evicting_parts, "RoomPlanner", Slow)
    cluster = small()
    async with evicting(cluster) as running:
        await fleet(running, cluster)
        beside = pod("beside", "wanted", priority=999, priorityClassName="high")
        cluster.load(claim("wanted", managed=False), important("high", "wanted"), beside)
        assert await asyncio.to_thread(planned.wait, PATIENCE)
        change(cluster)
        cluster.load(pod("last", "missing"))  # the watch shows it after that
        await running.heard(Waits, counts=lambda one: one.pod == ObjectKey("default", "last"))
        changed.set()
        (aborted,) = await running.heard(RoomPlanAborted)
        assert running.of(Evicted) == []
    assert re.fullmatch(f"{why} while the plan was checked", aborted.why)


async def test_a_budget_that_allows_nothing_makes_a_plan_advice():
    cluster = small()
    cluster.load(budget(0))
    async with evicting(cluster) as running:
        await fleet(running, cluster)
        cluster.load(claim("wanted", managed=False), important("high", "wanted"))
        (planned,) = await running.heard(RoomPlanned)
    assert not planned.acts
    assert planned.why == "PodDisruptionBudget default/all allows no further eviction"
    assert running.of(Evicted) == []
    assert running.of(Nominated) == []
    assert cluster.pod("low0") is not None


async def test_each_eviction_is_counted_for_its_budget():
    """The second pod may not leave for the next one that wants room."""
    cluster = small()
    cluster.load(budget(1))
    async with evicting(cluster) as running:
        await fleet(running, cluster)
        cluster.load(claim("first", managed=False), important("one", "first"))
        await cluster.until(lambda: not cluster.gated("one"))
        cluster.load(claim("second", managed=False), important("two", "second"))
        await running.heard(RoomPlanned, counts=lambda plan: not plan.acts)
    assert len(running.of(Evicted)) == 1
    (record,) = cluster.api.store[BUDGET].scan("")
    assert record.object["status"]["disruptionsAllowed"] == 0
    assert cluster.gated("two")


async def test_advice_evicts_nothing_and_holds_no_room(tmp_path: Path):
    cluster = small(1)
    async with evicting(cluster, preemption="advise", journal=str(tmp_path)) as running:
        await fleet(running, cluster, 1)
        cluster.load(claim("wanted", managed=False), important("high", "wanted"))
        (planned,) = await running.heard(RoomPlanned)
    assert not planned.acts
    assert planned.why
    assert not running.of(Evicted)
    assert not running.of(Nominated)
    assert cluster.api.store[POD].get("default/low0") is not None
    assert '"planned"' in journal(tmp_path)


def journal(folder: Path) -> str:
    """The text of all its files."""
    return b"".join(gzip.decompress(path.read_bytes()) for path in folder.iterdir()).decode()


async def test_nobody_is_evicted_while_writes_are_paused():
    cluster = placed_before()
    async with evicting(cluster, pause=True) as running:
        await running.heard(Nominated)  # from here on only the pause protects the pod
        await asyncio.sleep(10 * preemptor.PAUSE)
    assert running.of(Evicted) == []
    assert "deletionTimestamp" not in cluster.pod("low")["metadata"]
    assert "nominatedNodeName" not in cluster.pod("high").get("status", {})
