"""Workloads of Kueue are admitted when all their pods have room together, and wait or retry otherwise."""

from datetime import UTC, datetime, timedelta

import pytest

from reconciler.api.validation.served_kinds import NAMESPACE
from reconciler.control.decisions.every import Nominated, WorkloadChecked
from reconciler.plugins.kueue import checker, questions
from reconciler.plugins.kueue.objects import WORKLOAD
from tests.tools.kueue_queue import answers, check, checked, checking, flavor, fleet, workload
from tests.tools.running_reconciler import Cluster
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, held, node, pod, template


async def test_a_workload_without_room_keeps_its_quota_until_devices_are_freed():
    cluster = fleet(a=2)
    used = claim("used", managed=False) | {"status": held(DRIVER, "a", "d0", on="a")}
    cluster.load(used)
    async with checking(cluster) as (running, queue):
        cluster.load(workload("job", 2))
        pending = await checked(running, "job", "Pending")
        assert pending.reason == "GangUnplaced"
        assert queue.ours("job")["message"].startswith("GangUnplaced: 1 of 2 pods fit together at most")
        cluster.delete("used")
        await checked(running, "job", "Ready")
        assert answers(running, "job") == ["Pending", "Ready"]


async def test_after_a_while_the_quota_is_given_back_and_nothing_is_ever_rejected():
    cluster = fleet(a=1)
    long_ago = (datetime.now(UTC) - timedelta(seconds=700)).strftime("%Y-%m-%dT%H:%M:%SZ")
    async with checking(cluster, kueue_requeue_seconds=42) as (running, queue):
        cluster.load(workload("job", 2, reserved=long_ago))
        await checked(running, "job", "Retry")
        ours = queue.ours("job")
        assert (ours["state"], ours["requeueAfterSeconds"]) == ("Retry", 42)
        assert ours["lastTransitionTime"] > long_ago
        assert not running.of(Nominated)


async def test_after_a_retry_the_workload_is_asked_about_again_and_admitted_when_room_comes_back():
    """What Kueue 0.13 does of a `Retry`: it evicts, resets the checks, and reserves quota again at once."""
    cluster = fleet(a=2)
    cluster.load(claim("used", managed=False) | {"status": held(DRIVER, "a", "d0", on="a")})
    long_ago = (datetime.now(UTC) - timedelta(seconds=700)).strftime("%Y-%m-%dT%H:%M:%SZ")
    async with checking(cluster) as (running, queue):
        cluster.load(workload("job", 2, reserved=long_ago))
        await checked(running, "job", "Retry")
        fresh = workload("job", 2)["status"]
        queue.change("job", lambda shown: {**shown, "status": {**fresh, "conditions": [], "admission": None}})
        queue.change("job", lambda shown: {**shown, "status": fresh})
        await checked(running, "job", "Pending")
        assert "requeueAfterSeconds" not in queue.ours("job")
        cluster.delete("used")
        await checked(running, "job", "Ready")
        assert answers(running, "job") == ["Retry", "Pending", "Ready"]


async def test_workloads_share_no_room_and_the_urgent_one_comes_first():
    cluster = fleet(a=2, b=2)
    cluster.load(workload("low", 3), workload("high", 2, priority=10))
    async with checking(cluster) as (running, _):
        await checked(running, "high", "Ready")
        await checked(running, "low", "Pending")
        cluster.api.delete(WORKLOAD, "default", "high")
        await checked(running, "low", "Ready")
        assert [one.nominee.key.name for one in running.of(Nominated)] == ["high", "low"]


async def test_a_required_topology_keeps_the_pods_in_one_domain():
    cluster = fleet(x1=1, x2=1, y1=1)
    async with checking(cluster) as (running, _):
        cluster.load(workload("wide", 3, topology={"required": "rack"}))
        await checked(running, "wide", "Pending")
        cluster.load(workload("narrow", 2, topology={"required": "rack"}))
        await checked(running, "narrow", "Ready")
        assert set(running.of(Nominated)[0].nodes) == {"x1", "x2"}


async def test_pods_get_only_the_nodes_of_their_flavor():
    cluster = fleet(a=1)
    cluster.load(node("b", kind="other"), devices("b", "d0"))
    async with checking(cluster) as (running, _):
        cluster.load(workload("job", 2))
        pending = await checked(running, "job", "Pending")
        assert "1 of 2 pods" in pending.message


async def test_a_long_search_runs_beside_the_loop(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(questions, "QUICK_STEPS", 0)
    cluster = fleet(a=2, b=2)
    async with checking(cluster) as (running, _):
        cluster.load(workload("large", 5), workload("job", 4))
        await checked(running, "large", "Pending")
        await checked(running, "job", "Ready")
        assert len(running.of(Nominated)[0].devices) == 4


async def test_quota_for_fewer_pods_asks_for_fewer():
    """Kueue may admit a part of a Workload."""
    cluster = fleet(a=2)
    async with checking(cluster) as (running, _):
        part = workload("job", 5)
        part["status"]["admission"]["podSetAssignments"][0]["count"] = 2
        cluster.load(part)
        assert (await checked(running, "job", "Ready")).message.startswith("2 pods have room")


@pytest.mark.parametrize("missing", ["template", "flavor"])
async def test_a_workload_that_names_what_does_not_exist_waits_for_it(missing: str):
    cluster = fleet(a=1)
    late = {"template": template("t"), "flavor": flavor("gpus", kind="gpu")}[missing]
    cluster = Cluster(
        [one for one in (device_class(), template("t"), flavor("gpus", kind="gpu"), check()) if one != late]
    )
    cluster.load(node("a", kind="gpu"), devices("a", "d0"))
    async with checking(cluster) as (running, _):
        cluster.load(workload("job", 1))
        assert "does not exist" in (await checked(running, "job", "Pending")).message
        cluster.load(late)
        await checked(running, "job", "Ready")


async def test_namespaces_decide_for_a_workload_when_they_are_listed_and_when_they_change(
    monkeypatch: pytest.MonkeyPatch,
):
    """They are listed only when a pod asks for them, and no device and no pod changes meanwhile."""
    monkeypatch.setattr(checker, "SOONER", 0.1)
    cluster = fleet(a=1)
    label = {"metadata": {"name": "default", "labels": {"a": "b"}}}
    cluster.load({"apiVersion": "v1", "kind": "Namespace", **label}, pod("near", gates=(), nodeName="a"))
    async with checking(cluster) as (running, _):
        asked = workload("job", 1)
        term = {"topologyKey": "rack", "labelSelector": {}, "namespaceSelector": {"matchLabels": {"a": "b"}}}
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        asked["spec"]["podSets"][0]["template"]["spec"]["affinity"] = apart
        cluster.load(asked)
        await running.heard(
            WorkloadChecked, counts=lambda one: "affinity" in one.message and "not listed" not in one.message
        )
        cluster.api.update(
            NAMESPACE, "", "default", lambda shown: {**shown, "metadata": {**shown["metadata"], "labels": {}}}
        )
        await checked(running, "job", "Ready")
