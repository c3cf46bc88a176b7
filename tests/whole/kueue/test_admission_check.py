"""Workloads of Kueue are admitted when all their pods have room together, and wait or retry otherwise."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from reconciler.api.objects.core import WORKLOAD as MARK
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.validation.served_kinds import NAMESPACE, NODE, POD
from reconciler.cluster.client import Client
from reconciler.cluster.transport import Lines, Request, Response, WatchRequest
from reconciler.control.decisions.allocating import Ungated, Waits
from reconciler.control.decisions.every import (
    Nominated,
    NominationDropped,
    NominationExpired,
    WorkloadChecked,
)
from reconciler.errors import Rejected
from reconciler.plugins.kueue import checker, questions
from reconciler.plugins.kueue.checker import AdmissionChecker, kinds_for_check
from reconciler.plugins.kueue.objects import ADMISSION_CHECK, CONTROLLER, WORKLOAD
from tests.tools.checkout import DOCS
from tests.tools.definitions import assert_valid
from tests.tools.kueue_queue import (
    KUEUE,
    admitted,
    answers,
    bound,
    check,
    checked,
    checking,
    drops,
    flavor,
    fleet,
    rounds,
    workload,
)
from tests.tools.running_reconciler import Cluster
from tests.tools.small_fleet import DRIVER, Object, claim, device_class, devices, held, node, pod, template
from tests.tools.tuned import tuned


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


async def test_room_that_comes_during_a_round_is_seen_by_the_next(monkeypatch: pytest.MonkeyPatch):
    """Something else began that round."""
    cluster = fleet(a=1)
    cluster.load(node("other"))
    whole = AdmissionChecker._round
    clock = asyncio.get_running_loop().time
    grown: list[float] = []

    async def grow(self: AdmissionChecker) -> None:
        await whole(self)
        if not grown:
            grown.append(clock())
            cluster.load(node("b", kind="gpu", rack="b"), devices("b", "d0"))
            await asyncio.sleep(1)

    async with checking(cluster) as (running, _):
        cluster.load(workload("job", 2))
        await checked(running, "job", "Pending")
        await asyncio.sleep(1)
        monkeypatch.setattr(AdmissionChecker, "_round", grow)
        cluster.api.update(NODE, "", "other", lambda shown: {**shown, "spec": {"unschedulable": True}})
        await checked(running, "job", "Ready")
        assert clock() < grown[0] + 5


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


# -- Which admission checks are served, and what a process says that cannot answer.


class Nothing:
    """A transport to a server that serves nothing."""

    async def send(self, _: Request) -> Response:
        return Response(404, {}, b"{}")

    def stream(self, request: WatchRequest) -> Lines:
        raise AssertionError(request)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"shard": "driver=d"}, "a shard knows a part of the fleet only"),
        ({}, "the server does not serve kueue.x-k8s.io in v1beta2 or v1beta1: install Kueue"),
    ],
)
async def test_a_check_that_cannot_be_answered_stops_the_start(flags: dict[str, Any], said: str):
    settings = tuned(embedded=True, kueue_check="room", **flags)
    with pytest.raises(Rejected, match=said):
        await kinds_for_check(settings, Client(Nothing()))


async def test_the_check_says_that_it_is_served():
    cluster = fleet(a=1)
    async with checking(cluster) as (running, _):
        cluster.load(workload("job", 1))
        await checked(running, "job", "Ready")
        record = cluster.api.store[ADMISSION_CHECK].get("room")
        assert record is not None
        (condition,) = record.object["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("Active", "True")


async def test_a_check_of_another_controller_is_left_alone():
    cluster = Cluster([device_class(), template("t"), flavor("gpus"), check("example.com/other")])
    cluster.load(node("a"), devices("a", "d0"))
    async with checking(cluster) as (running, queue):
        cluster.load(workload("job", 1))
        cluster.load(claim("other", managed=False), pod("other", "other"))
        await running.heard(Ungated)
        assert queue.ours("job")["state"] == "Pending"
        assert not running.of(WorkloadChecked)
        record = cluster.api.store[ADMISSION_CHECK].get("room")
        assert record is not None
        assert "status" not in record.object
    assert cluster.api.store[POD].get("default/other") is not None
    assert ObjectKey("default", "other") == running.of(Ungated)[0].pod


def test_the_check_of_the_page_is_one_that_we_serve():
    (block,) = re.findall(r"```yaml\n(.*?)```", (DOCS / "with-kueue.md").read_text(), re.DOTALL)
    made, _ = yaml.safe_load_all(block)
    assert_valid(ADMISSION_CHECK, made)
    assert (made["apiVersion"], made["spec"]["controllerName"]) == (KUEUE, CONTROLLER)


# -- The room of an admitted Workload is held until its own pods are bound, and no longer than it should be.


async def test_a_workload_with_room_is_ready_and_its_room_is_held_until_its_pods_are_bound():
    cluster = fleet(a=2)
    async with checking(cluster) as (running, queue):
        cluster.load(workload("job", 2))
        await checked(running, "job", "Ready")
        others, ours, last = queue.states("job")
        assert (others["state"], last["state"]) == ("Ready", "Pending")
        assert (ours["state"], ours["retryCount"]) == ("Ready", 2)
        assert ours["podSetUpdates"] == [{"name": "main", "annotations": {MARK: "job"}}]
        (nominated,) = running.of(Nominated)
        assert len(nominated.devices) == 2
        cluster.load(claim("stranger", managed=False), pod("stranger", "stranger"))
        await running.heard(Waits, counts=lambda one: "stranger" in str(one))
        for number in range(2):
            made = pod(f"job-{number}", templates=("t",))
            made["metadata"]["annotations"] = {MARK: "job"}
            cluster.load(made)
        await running.heard(Ungated, 2)
        dropped = await running.heard(NominationDropped)
        assert dropped[0].why == "its pods are bound"
        assert {one.pod.name for one in running.of(Ungated)} == {"job-0", "job-1"}
        assert cluster.gated("stranger")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Running"])
async def test_room_is_held_although_pods_of_an_earlier_admission_are_still_there(phase: str):
    cluster = fleet(a=4)
    cluster.load(*(bound(f"old-{number}", phase=phase) for number in range(2)))
    async with checking(cluster) as (running, _):
        cluster.load(workload("job", 2))
        await checked(running, "job", "Ready")
        await rounds(cluster, running)
        assert drops(running) == []
        cluster.load(*(bound(f"new-{number}") for number in range(2)))
        await running.heard(NominationDropped)
        assert drops(running) == ["its pods are bound"]


async def test_the_next_leader_does_not_take_earlier_pods_for_those_of_the_room():
    cluster = fleet(a=4)
    cluster.load(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "namespace": "default"}},
        *(bound(f"old-{number}") for number in range(2)),
    )
    for number in range(2):
        record = cluster.api.store[POD].get(f"default/old-{number}")
        assert record is not None
        metadata = {**record.object["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}
        cluster.api.store.put(POD, f"default/old-{number}", {**record.object, "metadata": metadata})
    async with checking(cluster, held_room_config_map="default/held") as (running, _):
        cluster.load(workload("job", 2))
        await checked(running, "job", "Ready")
    async with checking(cluster, held_room_config_map="default/held") as (running, _):
        await running.heard(Nominated)
        await rounds(cluster, running)
        assert drops(running) == []
        cluster.load(*(bound(f"new-{number}") for number in range(2)))
        await running.heard(NominationDropped)
        assert drops(running) == ["its pods are bound"]


async def test_pods_that_ended_since_the_room_is_held_do_not_use_it():
    cluster = fleet(a=4)
    async with checking(cluster) as (running, _):
        cluster.load(workload("job", 2))
        await checked(running, "job", "Ready")
        cluster.load(bound("failed", phase="Failed"), bound("first"))
        cluster.load(bound("leaving", finalizers=["example.com/wait"]))
        cluster.api.delete(POD, "default", "leaving")
        assert cluster.pod("leaving") is not None
        await rounds(cluster, running)
        assert drops(running) == []
        cluster.load(bound("second"))
        await running.heard(NominationDropped)
        assert drops(running) == ["its pods are bound"]


async def test_room_that_nobody_uses_is_free_again():
    cluster = fleet(a=1)
    async with checking(cluster, kueue_hold_seconds=0.3) as (running, queue):
        cluster.load(workload("job", 1))
        await checked(running, "job", "Ready")
        queue.change("job", admitted)
        await running.heard(NominationExpired)
        cluster.load(claim("other", managed=False), pod("other", "other"))
        await running.heard(Ungated)
        await rounds(cluster, running)
        assert queue.ours("job")["state"] == "Ready"


async def test_room_that_expires_before_other_checks_are_ready_is_held_again():
    cluster = fleet(a=1)
    async with checking(cluster, kueue_hold_seconds=0.3) as (running, queue):
        cluster.load(workload("job", 1))
        await running.heard(NominationExpired)
        await running.heard(Nominated, 2)
        assert set(answers(running, "job")) == {"Ready"}
        assert queue.ours("job")["podSetUpdates"]


async def test_room_that_others_got_meanwhile_makes_a_workload_wait_again():
    cluster = fleet(a=1)
    async with checking(cluster, kueue_hold_seconds=0.3) as (running, queue):
        cluster.load(workload("job", 1))
        await checked(running, "job", "Ready")
        ready = queue.ours("job")
        cluster.load(claim("other", managed=False), pod("other", "other"))
        await running.heard(Ungated)
        pending = await checked(running, "job", "Pending")
        assert pending.reason == "GangUnplaced"
        ours = queue.ours("job")
        assert ours["state"] == "Pending"
        assert "podSetUpdates" not in ours
        assert ours["lastTransitionTime"] >= ready["lastTransitionTime"]


async def test_a_workload_that_loses_its_quota_loses_its_room():
    cluster = fleet(a=1)
    async with checking(cluster) as (running, queue):
        cluster.load(workload("job", 1))
        await checked(running, "job", "Ready")

        def evicted(shown: Object) -> Object:
            return {**shown, "status": {**shown["status"], "conditions": []}}

        queue.change("job", evicted)
        (dropped,) = await running.heard(NominationDropped)
        assert dropped.why == "it has no quota any more"


async def test_devices_that_are_only_watched_are_not_held():
    """With administrative access nothing is taken from others."""
    cluster = fleet(a=1)
    watching = template("watching")
    watching["spec"]["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    labels = {"resource.kubernetes.io/admin-access": "true"}
    cluster.load({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": labels}})
    cluster.load(watching)
    async with checking(cluster) as (running, _):
        asked = workload("job", 1)
        spec = asked["spec"]["podSets"][0]["template"]["spec"]
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "watching"}]
        cluster.load(asked)
        assert (await checked(running, "job", "Ready")).message.startswith("1 pod has room, which is held")
        assert running.of(Nominated)[0].devices == ()
