"""Pods of lower priority are evicted for pending ones, one at a time, and nobody else is."""

from typing import Any

import pytest

from reconciler.control.decisions.allocating import Waits
from reconciler.control.decisions.every import (
    Evicted,
    GangPlaced,
    Nominated,
    NominationUsed,
    RoomPlanAborted,
    RoomPlanned,
)
from tests.tools.gangs import annotated
from tests.tools.preempting import evicting, fleet, important, placed_before, small
from tests.tools.running_reconciler import Cluster
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, held, node, pod


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


async def test_an_earlier_process_of_ours_gave_the_device_that_is_made_free():
    cluster = placed_before()
    async with evicting(cluster) as running:
        await cluster.until(lambda: not cluster.gated("high"))
    assert [decision.pod.name for decision in running.of(Evicted)] == ["low"]
