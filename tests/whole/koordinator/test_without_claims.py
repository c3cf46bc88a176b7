"""A server without resource.k8s.io, as old Kubernetes is: Koordinator's devices are given all the same."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from reconciler import app
from reconciler.control.decisions.allocating import DevicesGiven, Waits
from reconciler.errors import Rejected
from tests.tools.koordinator_builders import gpu
from tests.tools.koordinator_cluster import GROUP, Plain, machine, node, running, wants
from tests.tools.running_reconciler import reached
from tests.tools.tuned import tuned
from tests.tools.watched_reconciler import watched

GPU = {"nvidia.com/gpu": 1}


def small(**kind: Any) -> Plain:
    return Plain([node("a"), machine("a", gpu(0))], **kind)


@pytest.mark.parametrize("versions", [frozenset(), frozenset({"v1alpha3"})], ids=["no version", "only alpha"])
async def test_pods_get_devices_and_nobody_asks_for_claims(versions: frozenset[str]):
    cluster = small(versions=versions)
    cluster.load(wants("first", GPU))
    with capture_logs() as lines:
        async with running(cluster) as run:
            await run.heard(DevicesGiven)
            cluster.load(wants("second", GPU))
            await run.told(Waits, reason="InsufficientDevices")
            cluster.end("first")
            await run.heard(DevicesGiven, 2)
            sent = list(run.faulty.sent)
    assert cluster.given("second") == {"gpu": [0]}
    assert not [line for line in sent if GROUP in line and line.count("/") > 3]
    (said,) = [line for line in lines if line["event"] == "ResourceClaims are not served"]
    assert f"{GROUP}/v1 ResourceClaim" in said["not_served"]
    (began,) = [line for line in lines if line["event"] == "reconciling"]
    assert began["kinds"] == ["Node", "Pod", "Device"]


async def test_what_is_held_is_read_back_after_a_restart():
    cluster = small()
    cluster.load(wants("first", GPU))
    async with running(cluster) as run:
        await run.heard(DevicesGiven)
    cluster.load(wants("second", GPU))
    async with running(cluster) as run:
        await run.heard(Waits)


async def test_a_lease_is_taken_although_there_are_no_claims_to_list_again():
    cluster = small()
    cluster.load(wants("p", GPU))
    terms = {"lease_seconds": 3.0, "renew_seconds": 2.0, "retry_seconds": 0.5, "write_seconds": 1.5}
    async with running(cluster, leader_elect=True, **terms) as run:
        await run.heard(DevicesGiven)


async def test_a_gated_pod_that_asks_for_no_device_just_goes_on():
    cluster = small()
    cluster.load(wants("p", {}))
    async with running(cluster):
        await cluster.until(lambda: cluster.served("p"))


@pytest.mark.loopback
async def test_the_replica_is_ready_and_says_what_is_not_served():
    async with watched(small(), koordinator=True) as seen:
        await seen.until(lambda: ready(seen))
        text = (await seen.get("/statusz")).text
        assert f"not served: {GROUP}/v1 ResourceSlice, {GROUP}/v1beta2 ResourceSlice" in text
        assert (await seen.get("/")).status == 200


async def ready(seen: Any) -> bool:
    return (await seen.get("/readyz")).status == 200


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="without Koordinator"),
        pytest.param({"koordinator": True, "own_drivers": "gpu.example.com"}, id="a driver is ours"),
        pytest.param({"koordinator": True, "own_classes": "gpu"}, id="a class is ours"),
        pytest.param({"koordinator": True, "all_claims": True}, id="every claim"),
        pytest.param({"koordinator": True, "mode": "shadow"}, id="shadow mode compares claims"),
    ],
)
async def test_who_wants_to_allocate_claims_is_told_that_there_are_none(settings: dict[str, Any]):
    said = "does not serve ResourceSlice of resource.k8s.io.*" + ("drop --own-driver" if settings else "")
    with pytest.raises(Rejected, match=said):
        async with reached(small().api) as transport:
            await app.run(tuned(embedded=True, **settings), transport, stop=asyncio.Event())
