"""Pods of lower priority are evicted for pending ones, one at a time, and nobody else is."""

import asyncio
import re
from typing import Any

import pytest
from msgspec import json

from reconciler.api.objects.meta import ObjectKey
from reconciler.api.validation.served_kinds import CONFIG_MAP, EVICTION_REQUEST, POD
from reconciler.app import evicting as evicting_parts
from reconciler.control.decisions.allocating import Waits
from reconciler.control.decisions.every import (
    Evicted,
    GangPlaced,
    Nominated,
    NominationUsed,
    RoomPlanAborted,
    RoomPlanned,
)
from reconciler.control.relocation import preemptor
from reconciler.embedded.controllers import run_controllers
from reconciler.state.nominations import Leaving, of_pod
from tests.tools.faulty_transport import after, answer, lost_request
from tests.tools.gangs import annotated, pod_group
from tests.tools.patience import PATIENCE
from tests.tools.preempting import (
    evicting,
    fleet,
    group_before,
    important,
    placed_before,
    small,
    with_finalizer,
    without_finalizers,
)
from tests.tools.running_reconciler import Cluster
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, held, node, pod
from tests.tools.watched_reconciler import watched


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


async def test_two_pods_leave_one_after_the_other_for_a_claim_of_two_devices(monkeypatch: pytest.MonkeyPatch):
    """After that, no copy of the state is kept."""
    made: list[preemptor.Preemptor] = []

    class Seen(preemptor.Preemptor):
        def __init__(self, *parts: Any) -> None:
            super().__init__(*parts)
            made.append(self)

    monkeypatch.setattr(evicting_parts, "Preemptor", Seen)
    cluster = small()
    async with evicting(cluster) as running:
        await fleet(running, cluster)
        cluster.load(claim("wanted", 2, managed=False), important("high", "wanted"))
        await running.heard(Evicted, 2)
        await cluster.until(lambda: not cluster.gated("high"))
        await asyncio.sleep(10)
        assert [one._before for one in made] == [None]
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


async def test_a_group_whose_pods_leave_one_by_one_keeps_its_minimum():
    """No pod that waits is in a group: groups are listed since those that may leave have one."""
    cluster = group_before("single", least=1, size=2)
    async with evicting(cluster) as running:
        for name in ("one", "two"):
            cluster.load(claim(name, managed=False), important(name, name))
        planned = await running.heard(RoomPlanned, counts=lambda plan: not plan.acts)
    assert planned[-1].why == "gang default/low would have to leave as a whole"
    assert len(running.of(Evicted)) == 1
    assert cluster.gated("one") or cluster.gated("two")


async def test_a_group_that_is_disrupted_as_a_whole_leaves_as_one():
    """Its second pod is evicted although the first one makes enough room."""
    cluster = group_before("all")
    async with evicting(cluster) as running:
        cluster.load(claim("wanted", managed=False), important("high", "wanted"))
        await running.heard(NominationUsed)
        await running.heard(Evicted, 2)
    (planned,) = running.of(RoomPlanned)
    assert [key.name for key in planned.victims] == ["low0", "low1"]
    assert planned.acts


async def test_a_group_that_is_disrupted_as_a_whole_leaves_only_if_the_rates_allow_all_of_it():
    cluster = group_before("all")
    async with evicting(cluster, evictions_per_minute=1) as running:
        cluster.load(claim("wanted", managed=False), important("high", "wanted"))
        (planned,) = await running.heard(RoomPlanned)
    assert planned.why == "gang default/low would have to leave as a whole"
    assert not running.of(Evicted)


async def test_no_pod_of_a_whole_group_leaves_while_the_server_refuses_to_evict_another():
    cluster = group_before("all")
    async with evicting(cluster) as running:
        running.faulty.on("POST", "/low1/eviction", answer(403))
        cluster.load(claim("wanted", managed=False), important("high", "wanted"))
        (aborted,) = await running.heard(RoomPlanAborted)
    assert "as told" in aborted.why
    assert not running.of(Evicted)
    assert [cluster.phase(name) for name in ("low0", "low1")] == ["Running"] * 2


async def test_no_pod_of_a_whole_group_leaves_before_the_budget_of_another_allows_it():
    cluster = group_before("all")
    async with evicting(cluster) as running:
        running.faulty.on("POST", "/low1/eviction", answer(429), lost_request)
        cluster.load(claim("wanted", managed=False), important("high", "wanted"))
        await running.heard(NominationUsed)
        await running.heard(Evicted, 2)
    assert not running.of(RoomPlanAborted)
    sent = [one for one in running.faulty.sent if one.endswith("/eviction")]
    assert [one.split("/")[-2] for one in sent] == ["low0"] * 3 + ["low1", "low0", "low1"]


async def test_when_the_first_pod_of_a_whole_group_has_left_the_others_are_asked_to_until_they_do():
    """Their evictions were allowed before; one that is refused now keeps no other pod."""
    cluster = group_before("all", size=3)
    async with evicting(cluster) as running:
        refused = [answer(403), answer(403), answer(429)]
        running.faulty.on("POST", "/low1/eviction", after(lambda: None), *refused)
        cluster.load(claim("wanted", managed=False), important("high", "wanted"))
        await running.heard(Evicted, 3)
    assert [decision.pod.name for decision in running.of(Evicted)] == ["low0", "low2", "low1"]
    assert not running.of(RoomPlanAborted)


async def test_pods_of_a_whole_group_that_others_end_when_asked_count_as_evicted():
    cluster = group_before("all")
    async with evicting(cluster, eviction_request_seconds=60.0) as running:
        cluster.load(claim("wanted", managed=False), important("high", "wanted"))
        requests = cluster.api.store[EVICTION_REQUEST]
        async with asyncio.timeout(PATIENCE):
            for name in ("low0", "low1"):
                while requests.get(f"default/dra-reconciler-{cluster.pod(name)['metadata']['uid']}") is None:
                    await requests.wait(requests.end)
                cluster.api.delete(POD, "default", name)
        evicted = await running.heard(Evicted, 2)
    assert [decision.pod.name for decision in evicted] == ["low0", "low1"]


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
    "spec", [{"priorityClassName": "other"}, {"preemptionPolicy": "Never"}, {"priority": 0}]
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


async def test_an_earlier_process_of_ours_gave_the_device_that_is_made_free():
    cluster = placed_before()
    async with evicting(cluster) as running:
        await cluster.until(lambda: not cluster.gated("high"))
    assert [decision.pod.name for decision in running.of(Evicted)] == ["low"]


# -- Room that pods left is held for whom they left, shown as such, and kept across restarts.


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


@pytest.mark.loopback
async def test_room_that_is_held_is_shown_on_the_page_in_a_metric_and_in_the_pod(monkeypatch):
    """Between the two evictions, as above."""
    monkeypatch.setattr(preemptor, "PAUSE", 0.01)
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
    found = [cluster.pod(name) is None for name in ("low0", "low1")]
    assert found == [evicted.pod.name == name for name in ("low0", "low1")]


async def test_the_next_leader_holds_the_room_that_was_made():
    """The first process ends between two evictions. Its room is not taken by a claim that comes first."""
    cluster = small()
    cluster.load(held_room())
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


async def test_the_next_leader_evicts_the_rest_of_a_group_that_leaves_as_a_whole():
    """The first process ends after one eviction of three. The room that it made is used already."""
    cluster = group_before("all", size=3)
    cluster.load(held_room())
    async with evicting(cluster, held_room_config_map="default/held") as running:
        for name in ("low1", "low2"):
            running.faulty.on("POST", f"/{name}/eviction", after(lambda: None), *[answer(429)] * 9)
        cluster.load(claim("wanted", managed=False), important("high", "wanted"))
        await running.heard(NominationUsed)
    assert [decision.pod.name for decision in running.of(Evicted)] == ["low0"]
    assert '"low2"' in recorded(cluster)
    async with evicting(cluster, held_room_config_map="default/held") as running:
        await running.heard(Evicted, 2)
        await forgotten(cluster)
    assert [decision.pod.name for decision in running.of(Evicted)] == ["low1", "low2"]


@pytest.mark.parametrize(
    ("gone", "deadline", "mode"),
    [
        (False, "2999-01-01T00:00:00Z", "all"),
        (True, "2026-01-01T00:00:00Z", "all"),
        (True, "2999-01-01T00:00:00Z", "single"),
    ],
)
async def test_nobody_of_a_group_leaves_that_no_leader_began_to_evict_or_long_ago_or_that_leaves_one_by_one(
    gone: bool, deadline: str, mode: str
):
    cluster = group_before(mode, size=3)
    pods = tuple((ObjectKey("default", one), cluster.pod(one)["metadata"]["uid"]) for one in ("low0", "low1"))
    leaving = Leaving(of_pod(ObjectKey("default", "high")), pods, deadline)
    cluster.load(held_room(leaving=json.encode(leaving).decode()))
    if gone:
        cluster.api.delete(POD, "default", "low0")
    async with evicting(cluster, held_room_config_map="default/held") as running:
        await forgotten(cluster)
        await asyncio.sleep(10)
    assert running.of(Evicted) == []
    assert cluster.phase("low1") == "Running"


def recorded(cluster: Cluster) -> str:
    """The group in the record that leaves as a whole."""
    record = cluster.api.store[CONFIG_MAP].get("default/held")
    assert record is not None
    return str(record.object["data"].get("leaving"))


async def forgotten(cluster: Cluster) -> None:
    shelf = cluster.api.store[CONFIG_MAP]
    async with asyncio.timeout(PATIENCE):
        while recorded(cluster):
            await shelf.wait(shelf.end)


def held_room(**data: str) -> dict[str, Any]:
    metadata = {"name": "held", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


OF_GROUP: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    # What the group says, what its pod says, and whether a pod is evicted for it
    ({"priority": 1000}, {"priority": 0}, True),
    ({"priority": 1000, "priorityClassName": "high"}, {"priority": 0, "priorityClassName": ""}, True),
    ({"priority": 1000, "priorityClassName": "other"}, {"priority": 1000}, False),
    ({"priority": 0}, {"priority": 1000}, False),
    ({"priority": 1000, "preemptionPolicy": "Never"}, {"priority": 1000}, False),
]


@pytest.mark.parametrize(("of_group", "of_pod", "evicts"), OF_GROUP)
async def test_what_a_group_says_of_preemption_counts_instead_of_its_pods(
    of_group: dict[str, Any], of_pod: dict[str, Any], evicts: bool
):
    cluster, group = small(1), pod_group("g", 1)
    group["spec"] |= of_group
    async with evicting(cluster) as running:
        await fleet(running, cluster, 1)
        member = important("high", "wanted", schedulingGroup={"podGroupName": "g"})
        member["spec"] |= of_pod
        cluster.load(group, claim("wanted", managed=False), member)
        if evicts:
            await running.heard(NominationUsed)
        else:
            await running.heard(Waits, counts=lambda one: one.reason == "GangUnplaced")
            cluster.load(claim("last"))  # by then the gang was looked at
            await running.heard(Waits, counts=lambda one: one.gang is None)
    assert [decision.pod.name for decision in running.of(Evicted)] == ["low0"] * evicts


async def test_the_policy_of_a_group_does_not_count_without_its_gate():
    cluster, group = small(1), pod_group("g", 1)
    group["spec"] |= {"priority": 1000, "preemptionPolicy": "Never"}
    async with evicting(cluster, feature_gates="PodGroupPreemptionPolicy=false") as running:
        await fleet(running, cluster, 1)
        member = important("high", "wanted", schedulingGroup={"podGroupName": "g"})
        cluster.load(group, claim("wanted", managed=False), member)
        await running.heard(NominationUsed)
