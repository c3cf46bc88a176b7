"""Gated pods with extended resources: node and devices are held, kube-scheduler makes the claim there."""

import asyncio
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from reconciler.api.validation.kinds import ServedKind
from reconciler.api.validation.served_kinds import NODE, POD, SLICE
from reconciler.cli.apiserver import schedule
from reconciler.control.decisions.allocating import Allocated, AllocatedByScheduler, Ungated, Waits
from reconciler.control.decisions.every import Nominated, NominationExpired, NominationUsed
from reconciler.control.special_claims import HANDED_OVER
from reconciler.embedded import run_controllers
from tests.tools.running_reconciler import SETTLED, Cluster, reconciling
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, node, pod

GPU = "example.com/gpu"
OTHER = "other.example.com"


def fleet(*classes: Any, **nodes: int) -> Cluster:
    """Nodes with so many devices each, and a class that serves an extended resource."""
    named = device_class()
    named["spec"]["extendedResourceName"] = GPU
    cluster = Cluster(classes or [named])
    for name, count in nodes.items():
        cluster.load(node(name), devices(name, *(f"d{number}" for number in range(count))))
    return cluster


def asking(name: str, count: int = 1, *claims: str, **spec: Any) -> Any:
    amounts = {GPU: str(count)}
    container = {"name": "main", "image": "i", "resources": {"limits": amounts, "requests": amounts}}
    return pod(name, *claims, containers=[container], **spec)


def special(cluster: Cluster, name: str) -> str:
    """The name of the claim that was made for a pod."""
    made = cluster.pod(name)["status"].get("extendedResourceClaimStatus") or {}
    return made.get("resourceClaimName", "")


def moment() -> float:
    return asyncio.get_running_loop().time()


async def test_the_server_makes_the_claim_for_pods_without_a_gate():
    """EXT-4: also for one that has to wait for devices."""
    cluster = fleet(a=1, b=2)
    cluster.load(asking("p", 2, gates=()), asking("q", 2, gates=()))
    async with run_controllers(cluster.api, schedule):
        await cluster.until(lambda: cluster.phase("p") == "Running")
        made = special(cluster, "p")
        assert made.startswith("p-extended-resources-")
        assert cluster.devices(made) == ["b/d0", "b/d1"]
        assert cluster.claim(made)["status"]["reservedFor"][0]["name"] == "p"
        assert cluster.pod("p")["status"]["extendedResourceClaimStatus"]["requestMappings"] == [
            {"containerName": "main", "resourceName": GPU, "requestName": "container-0-request-0"}
        ]
        assert cluster.phase("q") == "Pending"
        cluster.api.delete(POD, "default", "p")
        await cluster.until(lambda: cluster.phase("q") == "Running")
        assert cluster.claim(made) is None
        assert cluster.devices(special(cluster, "q")) == ["b/d0", "b/d1"]


async def test_a_gated_pod_runs_on_the_node_that_was_held_for_it():
    cluster = fleet(a=1, b=3)
    cluster.load(asking("p", 2))
    async with reconciling(cluster, controllers=True, schedule=schedule) as running:
        await cluster.until(lambda: cluster.phase("p") == "Running")
        (told,) = await running.heard(AllocatedByScheduler)
    assert cluster.pod("p")["spec"]["nodeName"] == "b"
    assert [device.device for device in told.devices] == ["d0", "d1"] == [d.device for d in told.decided]
    assert running.of(NominationUsed)
    assert [held.nodes for held in running.of(Nominated)] == [("b",)] * 2


async def test_other_claims_of_the_pod_are_allocated_on_the_same_node_first():
    cluster = fleet(a=2, b=3)
    cluster.load(claim("own", 2, managed=False), asking("p", 1, "own"))
    async with reconciling(cluster, controllers=True, schedule=schedule):
        await cluster.until(lambda: cluster.phase("p") == "Running")
    assert cluster.devices("own") == ["b/d0", "b/d1"]
    assert cluster.devices(special(cluster, "p")) == ["b/d2"]


async def test_nothing_else_of_the_driver_is_given_on_the_node_until_the_deadline():
    """EXT-5. Here kube-scheduler never makes the claim."""
    cluster = fleet(a=3)
    cluster.load(asking("p"))
    async with reconciling(cluster, hand_over_seconds=30.0) as running:
        await running.heard(Ungated)
        began = moment()
        cluster.load(claim("c"))
        await running.heard(Waits)
        await running.heard(Allocated)
        assert running.of(NominationExpired)
    assert 29.0 <= moment() - began <= 32.0


async def test_who_writes_the_annotation_again_does_not_prolong_what_is_held():
    cluster = fleet(a=3)
    cluster.load(asking("p"))
    async with reconciling(cluster, hand_over_seconds=30.0) as running:
        await running.heard(Ungated)
        began = moment()
        cluster.load(claim("c"))
        for later in range(1, 5):
            await asyncio.sleep(10.0)
            until = datetime.fromisoformat(
                cluster.pod("p")["metadata"]["annotations"][HANDED_OVER].split()[0]
            )
            told = f"{until + timedelta(seconds=10):%Y-%m-%dT%H:%M:%SZ} {DRIVER},x{later}"
            cluster.api.update(POD, "default", "p", partial(annotated, told))
        await running.heard(Allocated)
    assert moment() - began <= 41.0


def annotated(told: str, shown: Any) -> Any:
    return {**shown, "metadata": {**shown["metadata"], "annotations": {HANDED_OVER: told}}}


@pytest.mark.parametrize("given", [{}, {"hand_over_calm_seconds": 20.0}], ids=["default", "longer"])
async def test_the_gate_stays_until_kube_scheduler_has_seen_our_last_allocation_there(given: Any):
    """EXT-5: not for allocations of other nodes, nor for those of kube-scheduler."""
    cluster, calm = fleet(a=1, b=4), given.get("hand_over_calm_seconds", 5.0)
    cluster.load(claim("there"), claim("here", 1))
    async with reconciling(cluster, controllers=True, schedule=schedule, **given) as running:
        await running.heard(Allocated, 2)
        began = moment()
        cluster.load(asking("p", 1))
        await running.heard(Ungated)
        assert calm - 0.1 <= moment() - began <= calm + 0.5
        await running.heard(AllocatedByScheduler)
        began = moment()
        cluster.load(asking("q", 1))
        await running.heard(Ungated, 2)
        assert moment() - began <= 0.5


@pytest.mark.parametrize("kind", [NODE, SLICE], ids=["node", "slice"])
async def test_a_pod_whose_node_or_devices_go_before_its_gate_gets_another_node(kind: ServedKind):
    cluster = fleet(a=2, b=2)
    cluster.load(claim("here", 1))
    async with reconciling(cluster, controllers=True, schedule=schedule) as running:
        await running.heard(Allocated)
        assert cluster.devices("here") == ["a/d0"]
        cluster.load(asking("p", 1))
        await running.heard(Nominated)
        gone = next(one for one in cluster.api.store[kind].scan("") if "a" in one.object["metadata"]["name"])
        cluster.api.delete(kind, "", gone.object["metadata"]["name"])
        await running.heard(AllocatedByScheduler)
    assert cluster.pod("p")["spec"]["nodeName"] == "b"
    assert [held.nodes for held in running.of(Nominated)] == [("a",), ("b",), ("b",)]
    assert not running.of(NominationExpired)


TAINT = {"key": "broken", "effect": "NoSchedule"}


@pytest.mark.parametrize("change", [{"taints": [TAINT]}, {"attributes": {"model": {"string": "old"}}}])
async def test_a_pod_whose_device_no_longer_suits_before_its_gate_gets_another_node(change: Any):
    named = device_class()
    named["spec"]["extendedResourceName"] = GPU
    expression = f"!has(device.attributes['{DRIVER}'].model)"
    named["spec"]["selectors"].append({"cel": {"expression": expression}})
    cluster = fleet(named, a=2, b=2)
    cluster.load(claim("here", 1))
    async with reconciling(cluster, controllers=True, schedule=schedule) as running:
        await running.heard(Allocated)
        cluster.load(asking("p", 1))
        assert (await running.heard(Nominated))[0].nodes == ("a",)
        (record,) = [
            one for one in cluster.api.store[SLICE].scan("") if one.object["spec"]["nodeName"] == "a"
        ]
        spec = record.object["spec"]
        changed = {**spec, "devices": [{**one, **change} for one in spec["devices"]]}
        cluster.api.update(
            SLICE, "", record.object["metadata"]["name"], lambda shown: {**shown, "spec": changed}
        )
        await running.heard(AllocatedByScheduler)
    assert cluster.pod("p")["spec"]["nodeName"] == "b"


async def test_a_process_that_starts_later_holds_the_node_as_well():
    """EXT-6."""
    cluster = fleet(a=3)
    cluster.load(asking("p"))
    async with reconciling(cluster) as running:
        await running.heard(Ungated)
    cluster.load(claim("c"))
    async with reconciling(cluster) as running:
        await running.heard(Waits)
        assert cluster.devices("c") == []
        async with run_controllers(cluster.api, schedule):
            (told,) = await running.heard(AllocatedByScheduler)
            await running.heard(Allocated)
    assert [device.device for device in told.devices] == ["d0"]
    assert cluster.devices("c") == ["a/d1"]


async def test_other_devices_that_kube_scheduler_chose_are_those_that_count():
    cluster = fleet(a=2)

    def last(others: Any, asked: Any) -> Any:
        found = schedule(others, asked)
        if found is not None:
            found[1]["status"]["allocation"]["devices"]["results"][0]["device"] = "d1"
        return found

    cluster.load(asking("p"))
    async with reconciling(cluster, controllers=True, schedule=last) as running:
        (told,) = await running.heard(AllocatedByScheduler)
        cluster.load(claim("c"))
        await running.heard(Allocated)
    assert [device.device for device in (*told.devices, *told.decided)] == ["d1", "d0"]
    assert cluster.devices("c") == ["a/d0"]


async def test_a_class_with_devices_of_others_is_refused():
    any_driver = device_class()
    any_driver["spec"] = {"extendedResourceName": GPU}
    cluster = fleet(any_driver, a=2)
    cluster.load(asking("p"))
    flags: Any = {"embedded": False, "server": "http://unused"}
    async with reconciling(cluster, own_drivers={DRIVER}, **flags) as running:
        await running.heard(Ungated)
    cluster.load(devices("b", "x", driver=OTHER), asking("q"))
    async with reconciling(cluster, own_drivers={DRIVER}, **flags) as running:
        await asyncio.sleep(2 * SETTLED)
        refused = running.of(Waits)[-1]
        assert (refused.reason, OTHER in refused.message) == ("ExtendedResourcesUnsafe", True)
        assert "dra-reconciler migrate" in refused.message
    assert cluster.gated("q")
    cluster.api.delete(SLICE, "", f"b-{OTHER}")
