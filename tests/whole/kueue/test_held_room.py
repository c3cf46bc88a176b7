"""The room of an admitted Workload is held until its own pods are bound, and no longer than it should be."""

import pytest

from reconciler.api.objects.core import WORKLOAD as MARK
from reconciler.api.validation.served_kinds import POD
from reconciler.control.decisions.allocating import Ungated, Waits
from reconciler.control.decisions.every import Nominated, NominationDropped, NominationExpired
from tests.tools.kueue_queue import (
    admitted,
    answers,
    bound,
    checked,
    checking,
    drops,
    fleet,
    rounds,
    workload,
)
from tests.tools.small_fleet import Object, claim, pod, template


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
