"""Pods of lower priority are evicted for pending ones, one at a time, within budgets."""

import asyncio
import gzip
import re
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from reconciler.aio.worker_thread import ShouldContinue
from reconciler.api.objects.changes import Refused
from reconciler.api.objects.claims import ALLOCATED_AT
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.validation.served_kinds import BUDGET, POD
from reconciler.app import evicting as evicting_parts
from reconciler.app.making_room import RoomPlanner
from reconciler.control.decisions.allocating import Ungated, Waits
from reconciler.control.decisions.gangs import GangPlaced
from reconciler.control.decisions.making_room import Evicted, RoomPlanAborted, RoomPlanned
from reconciler.control.decisions.nominations import Nominated, NominationUsed
from reconciler.control.evicting.budgets import KnownBudgets
from reconciler.control.making_room import preemptor
from reconciler.control.making_room.plan import RoomPlan, RoomQuestion
from reconciler.embedded.controllers import run_controllers
from tests.tools.gangs import annotated
from tests.tools.patience import PATIENCE
from tests.tools.running_reconciler import Cluster, Running, reconciling
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, held, node, pod
from tests.tools.watched_reconciler import Watched, watched

pytestmark = pytest.mark.loopback


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemptor, "PAUSE", 0.01)


@asynccontextmanager
async def evicting(cluster: Cluster, **flags: Any) -> AsyncIterator[Running]:
    """Pods of the class `high` may preempt; no cool-down."""
    options = {
        "preemption": "evict",
        "preempting_classes": {"high"},
        "eviction_cooldown_seconds": 0.0,
        "backoff_cap_seconds": 0.2,
    }
    async with reconciling(cluster, controllers=True, **{**options, **flags}) as running:
        yield running


async def fleet(running: Running | Watched, cluster: Cluster, low: int = 2) -> None:
    """One node with as many devices as running pods of priority 0, each with one."""
    for number in range(low):
        cluster.load(claim(f"c{number}", managed=False), pod(f"low{number}", f"c{number}"))
    await running.heard(Ungated, low)
    await cluster.until(lambda: all(cluster.phase(f"low{number}") == "Running" for number in range(low)))


def small(low: int = 2) -> Cluster:
    return Cluster([device_class(), node("a"), devices("a", *(f"d{number}" for number in range(low)))])


def important(name: str, *claims: str, **spec: Any) -> dict[str, Any]:
    return pod(name, *claims, priority=1000, priorityClassName="high", **spec)


def budget(allowed: int) -> dict[str, Any]:
    """Covers every pod."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "all", "namespace": "default"},
        "spec": {"selector": {}, "minAvailable": 1},
        "status": {
            "disruptionsAllowed": allowed,
            "currentHealthy": 2,
            "desiredHealthy": 1,
            "expectedPods": 2,
        },
    }


async def test_a_pod_of_lower_priority_makes_room_for_a_pending_one():
    cluster = small()
    async with evicting(cluster) as running:
        await fleet(running, cluster)
        cluster.load(claim("wanted", managed=False), important("high", "wanted"))
        await cluster.until(lambda: cluster.pod("high") and not cluster.gated("high"))
        await running.heard(NominationUsed)
        (evicted,) = running.of(Evicted)
        (planned,) = running.of(RoomPlanned)
        (held_room,) = running.of(Nominated)
    assert planned.acts
    assert planned.victims == (evicted.pod,)
    assert held_room.devices == planned.devices
    assert cluster.devices("wanted")


async def test_two_pods_leave_one_after_the_other_for_a_claim_of_two_devices():
    cluster = small()
    async with evicting(cluster) as running:
        await fleet(running, cluster)
        cluster.load(claim("wanted", 2, managed=False), important("high", "wanted"))
        await running.heard(Evicted, 2)
        await cluster.until(lambda: not cluster.gated("high"))
    assert [decision.pod.name for decision in running.of(Evicted)] == ["low0", "low1"]
    assert running.of(RoomPlanAborted) == []


async def test_the_pod_stays_whose_device_the_pending_one_uses_itself():
    """Without `low0`, its claim would need a device again."""
    cluster = small()
    async with evicting(cluster) as running:
        await fleet(running, cluster)
        cluster.load(claim("wanted", managed=False), important("high", "c0", "wanted"))
        await cluster.until(lambda: cluster.pod("high") and not cluster.gated("high"))
    assert [decision.pod.name for decision in running.of(Evicted)] == ["low1"]
    assert running.of(RoomPlanAborted) == []


async def test_a_pod_leaves_so_that_its_claim_and_another_move_to_the_same_node():
    """`low0` holds the only device of its node; its claim and the pending one fit on the other node only."""
    cluster = Cluster([device_class(), node("a"), devices("a", "d0")])
    async with evicting(cluster) as running:
        await fleet(running, cluster, low=1)
        cluster.load(node("b"), devices("b", "d0", "d1"))
        cluster.load(claim("wanted", managed=False), important("high", "c0", "wanted"))
        await cluster.until(lambda: cluster.pod("high") and not cluster.gated("high"))
    assert [decision.pod.name for decision in running.of(Evicted)] == ["low0"]
    assert running.of(RoomPlanAborted) == []
    assert len(cluster.devices("c0")) == len(cluster.devices("wanted")) == 1


async def test_room_that_is_made_for_one_is_not_taken_by_another():
    """Between the two evictions one device is free; a claim that would fit waits, and says for whom."""
    cluster = small()
    async with evicting(cluster, evictions_per_minute=1) as running:
        await fleet(running, cluster)
        cluster.load(claim("wanted", 2, managed=False), important("high", "wanted"))
        await running.heard(Evicted)
        await cluster.until(lambda: cluster.pod("low0") is None)
        cluster.load(claim("other"))
        (*_, told) = await running.heard(
            Waits, counts=lambda one: any(key.name == "other" for key in one.claims)
        )
    assert "held for pod default/high until" in told.message
    assert not cluster.devices("other")
    assert cluster.gated("high")


async def test_room_that_is_held_is_shown_on_the_page_in_a_metric_and_in_the_pod():
    """Between the two evictions, as above."""
    cluster = small()
    options: dict[str, Any] = {
        "preemption": "evict",
        "preempting_classes": {"high"},
        "eviction_cooldown_seconds": 0.0,
        "evictions_per_minute": 1,
        "backoff_cap_seconds": 0.2,
    }
    async with watched(cluster, **options) as seen, run_controllers(cluster.api):
        await fleet(seen, cluster)
        cluster.load(claim("wanted", 2, managed=False), important("high", "wanted"))
        await seen.heard(Evicted)
        await cluster.until(lambda: "nominatedNodeName" in cluster.pod("high").get("status", {}))
        page = (await seen.get("/")).text
        count = await seen.value("dra_reconciler_held_room_devices", nominee="pod")
        (held_room,) = await seen.heard(Nominated)
        hint = cluster.pod("high")["status"]["nominatedNodeName"]
        assert cluster.gated("high")
    assert "Held room" in page
    assert re.search(r"pod default/high until \S+ \(2 devices on a\)", page)
    assert count == len(held_room.devices) == 2
    assert held_room.nodes == (hint,) == ("a",)


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
        await asyncio.to_thread(planned.wait, PATIENCE)
        change(cluster)
        cluster.load(pod("last", "missing"))  # the watch shows it after that
        await running.heard(Waits, counts=lambda one: one.pod == ObjectKey("default", "last"))
        changed.set()
        (aborted,) = await running.heard(RoomPlanAborted)
        assert running.of(Evicted) == []
    assert re.fullmatch(f"{why} while the plan was checked", aborted.why)


def with_label(shown: dict[str, Any]) -> dict[str, Any]:
    return {**shown, "metadata": {**shown["metadata"], "labels": {"app": "important"}}}


def with_finalizer(shown: dict[str, Any]) -> dict[str, Any]:
    return {**shown, "metadata": {**shown["metadata"], "finalizers": ["example.com/slow"]}}


def without_finalizers(shown: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in shown["metadata"].items() if key != "finalizers"}
    return {**shown, "metadata": metadata}


async def test_a_gang_gets_room_for_all_of_its_pods():
    cluster = small()
    async with evicting(cluster) as running:
        await fleet(running, cluster)
        members = [annotated(f"m{number}", f"w{number}", size=2) for number in range(2)]
        for member in members:
            member["spec"] |= {"priority": 1000, "priorityClassName": "high"}
        cluster.load(claim("w0", managed=False), claim("w1", managed=False), *members)
        await running.heard(GangPlaced)
        await running.heard(NominationUsed)
    assert {decision.pod.name for decision in running.of(Evicted)} == {"low0", "low1"}
    assert {str(decision.nominee) for decision in running.of(Nominated)} == {"gang default/g"}


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


@pytest.mark.parametrize(
    "spec",
    [
        {"priorityClassName": "other"},
        {"preemptionPolicy": "Never"},
        {"priority": 0},
    ],
)
async def test_others_wait(spec: dict[str, Any]):
    """Another class, a pod that never preempts, and one of equal priority."""
    cluster = small(1)
    async with evicting(cluster) as running:
        await fleet(running, cluster, 1)
        waiting = important("high", "wanted")
        waiting["spec"] |= spec
        cluster.load(claim("wanted", managed=False), waiting)
        await running.heard(Waits)
        cluster.load(claim("last"))  # by then the pod was looked at
        await running.heard(Waits, 2)
    assert running.of(Evicted) == []
    assert cluster.phase("low0") == "Running"


async def test_a_pod_whose_devices_we_did_not_allocate_is_never_evicted():
    cluster = small(1)
    theirs = {**claim("theirs", managed=False), "status": held(DRIVER, "a", "d0", on="a")}
    theirs["status"]["reservedFor"] = [{"resource": "pods", "name": "low", "uid": "u"}]
    running_pod = pod("low", "theirs", gates=(), nodeName="a")
    running_pod["metadata"]["uid"] = "u"
    running_pod["status"] = {"phase": "Running"}
    cluster.load(theirs, running_pod, claim("wanted", managed=False), important("high", "wanted"))
    async with evicting(cluster) as running:
        await running.heard(Waits)
        cluster.load(claim("last"))
        await running.heard(Waits, 2)
    assert not running.of(Evicted)
    assert not running.of(RoomPlanned)


async def test_a_pod_that_has_just_started_is_left_alone():
    cluster = small(1)
    async with evicting(cluster, eviction_cooldown_seconds=3600.0) as running:
        await fleet(running, cluster, 1)
        cluster.load(claim("wanted", managed=False), important("high", "wanted"))
        await running.heard(Waits)
        cluster.load(claim("last"))
        await running.heard(Waits, 2)
    assert running.of(RoomPlanned) == []


@pytest.mark.parametrize("flags", [{"preemption": "advise"}, {"eviction_dry_run": True}])
async def test_advice_and_dry_runs_evict_nothing_and_hold_no_room(flags: dict[str, Any], tmp_path: Path):
    cluster = small(1)
    async with evicting(cluster, **flags, journal=str(tmp_path)) as running:
        await fleet(running, cluster, 1)
        cluster.load(claim("wanted", managed=False), important("high", "wanted"))
        (planned,) = await running.heard(RoomPlanned)
    assert not planned.acts
    assert planned.why
    assert not running.of(Evicted)
    assert not running.of(Nominated)
    assert cluster.api.store[POD].get("default/low0") is not None
    assert '"room plan"' in journal(tmp_path)


def journal(folder: Path) -> str:
    """The text of all its files."""
    return b"".join(gzip.decompress(path.read_bytes()) for path in folder.iterdir()).decode()


def placed_before() -> Cluster:
    """One device, which an earlier process of ours gave to the running pod `low`; and a pod that wants it."""
    cluster = small(1)
    ours = {**claim("c0", managed=False), "status": held(DRIVER, "a", "d0", on="a")}
    ours["metadata"]["annotations"] = {ALLOCATED_AT: "2026-01-01T00:00:00Z x"}
    ours["status"]["reservedFor"] = [{"resource": "pods", "name": "low", "uid": "u"}]
    low = pod("low", "c0", gates=(), nodeName="a")
    low["metadata"]["uid"] = "u"
    low["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    cluster.load(ours, low, claim("wanted", managed=False), important("high", "wanted"))
    return cluster


async def test_an_earlier_process_of_ours_gave_the_device_that_is_made_free():
    cluster = placed_before()
    async with evicting(cluster) as running:
        await cluster.until(lambda: not cluster.gated("high"))
    assert [decision.pod.name for decision in running.of(Evicted)] == ["low"]


async def test_nobody_is_evicted_while_writes_are_paused():
    cluster = placed_before()
    async with evicting(cluster, pause=True) as running:
        await running.heard(Nominated)  # from here on only the pause protects the pod
        await asyncio.sleep(10 * preemptor.PAUSE)
    assert running.of(Evicted) == []
    assert "deletionTimestamp" not in cluster.pod("low")["metadata"]
    assert "nominatedNodeName" not in cluster.pod("high").get("status", {})


async def test_after_a_restart_the_pod_that_leaves_is_waited_for_and_nobody_else_leaves():
    cluster = small()
    async with evicting(cluster) as running:
        await fleet(running, cluster)
        for name in ("low0", "low1"):
            cluster.api.update(POD, "default", name, with_finalizer)
        cluster.load(claim("wanted", managed=False), important("high", "wanted"))
        (evicted,) = await running.heard(Evicted)
        (before,) = running.of(Nominated)
    async with evicting(cluster) as running:
        (after,) = await running.heard(Nominated)
        assert after.devices == before.devices
        await asyncio.sleep(5 * preemptor.PAUSE)
        cluster.api.update(POD, "default", evicted.pod.name, without_finalizers)
        await cluster.until(lambda: not cluster.gated("high"))
    assert running.of(Evicted) == []
    assert [cluster.pod(name) is None for name in ("low0", "low1")] == [
        evicted.pod.name == name for name in ("low0", "low1")
    ]


async def test_the_next_leader_holds_the_room_that_was_made():
    """The first process ends between two evictions. Its room is not taken by a claim that comes first."""
    cluster = small()
    cluster.load(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "namespace": "default"}}
    )
    settings = {"held_room_config_map": "default/held", "evictions_per_minute": 1}
    async with evicting(cluster, **settings) as running:
        await fleet(running, cluster)
        cluster.load(claim("wanted", 2, managed=False), important("high", "wanted"))
        await running.heard(Evicted)
        await cluster.until(lambda: cluster.pod("low0") is None)
    cluster.load(claim("other"))
    async with evicting(cluster, **settings) as running:
        (*_, told) = await running.heard(
            Waits, counts=lambda one: any(key.name == "other" for key in one.claims)
        )
        assert "held for pod default/high until" in told.message
        await cluster.until(lambda: not cluster.gated("high"))
        await running.heard(NominationUsed)
    assert len(cluster.devices("wanted")) == 2
    assert not cluster.devices("other")
