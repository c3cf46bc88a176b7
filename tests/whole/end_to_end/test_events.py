"""What `kubectl describe` shows of claims and pods that wait."""

import asyncio
from functools import partial

import pytest
from structlog.testing import capture_logs

from reconciler.api.validation.served_kinds import DEVICE_CLASS
from reconciler.cluster.transport import Response
from reconciler.control.decisions.decisions import Allocated, Waits
from tests.tools.faulty_transport import Held, Send, answer
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.small_fleet import claim, device_class, devices, node, pod

pytestmark = pytest.mark.loopback


def fleet(*names: str) -> Cluster:
    return Cluster([node("n"), device_class(), devices("n", *names)])


async def test_a_claim_that_waits_has_an_event_with_reason_nearest_miss_and_remedy():
    cluster = fleet("d0", "d1")
    cluster.load(claim("big", 3))
    with capture_logs() as lines:
        async with reconciling(cluster) as running:
            (waits,) = await running.heard(Waits)
            await cluster.until(lambda: cluster.events("big"))
    (event,) = cluster.events("big")
    assert (event["type"], event["reason"], event["action"]) == ("Warning", waits.reason, "Allocating")
    assert event["reportingComponent"] == "dra-reconciler.io/reconciler"
    assert event["involvedObject"] == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "namespace": "default",
        "name": "big",
        "uid": cluster.claim("big")["metadata"]["uid"],
    }
    assert "nearest miss n: 2 of 3 for request r" in event["message"]
    assert event["message"].startswith(waits.message)
    assert event["metadata"]["annotations"] == {"dra-reconciler.io/decision-id": waits.decision_id}
    (line,) = [line for line in lines if line["event"] == "claim explained"]
    assert (line["decision_id"], line["reason"]) == (waits.decision_id, waits.reason)
    assert "nearest miss n: 2 of 3" in line["why"]


async def test_a_pod_and_its_claims_each_have_one():
    cluster = fleet("d0")
    cluster.load(claim("a"), claim("b"), pod("p", "a", "b"))
    async with reconciling(cluster):
        await cluster.until(lambda: all(map(cluster.events, ("a", "b", "p"))))
    (event,) = cluster.events("p")
    assert event["involvedObject"]["kind"] == "Pod"
    assert "do not fit together: r, r" in event["message"]


async def test_a_reason_that_comes_back_counts_on_and_another_is_another_event():
    cluster = fleet("d0")
    cluster.load(claim("c", 2))
    async with reconciling(cluster, backoff_base_seconds=0.01):
        await cluster.until(lambda: cluster.events("c"))
        for number in range(2):
            cluster.api.delete(DEVICE_CLASS, "", "gpu")
            await cluster.until(partial(told, cluster, "ClassNotFound", number + 1))
            cluster.load(device_class())
            await cluster.until(partial(told, cluster, cluster.events("c")[0]["reason"], number + 2))
    assert len(cluster.events("c")) == 2


def told(cluster: Cluster, reason: str, times: int) -> bool:
    """Whether the claim `c` was told a reason so often."""
    found = [event for event in cluster.events("c") if event["reason"] == reason]
    return sum(event.get("series", {"count": 1})["count"] for event in found) == times


async def test_a_claim_that_gets_its_devices_has_none():
    cluster = fleet("d0")
    cluster.load(claim("c"))
    async with reconciling(cluster) as running:
        await running.heard(Allocated)
    assert cluster.events("c") == []


async def test_a_server_that_takes_no_events_delays_nothing():
    cluster = fleet("d0", "d1")
    cluster.load(claim("big", 3))
    held = Held()
    async with reconciling(cluster, prepare=lambda f: f.on("POST", "/events", held)) as running:
        await held.arrived.wait()
        cluster.load(claim("small"))
        await running.heard(Allocated)
        assert cluster.devices("small") == ["n/d0"]
        held.go.set()
        await cluster.until(lambda: cluster.events("big"))


async def test_a_right_that_is_missing_does_not_disturb_decisions():
    asked = asyncio.Event()

    async def forbid(send: Send) -> Response:
        asked.set()
        return await answer(403)(send)

    cluster = fleet("d0")
    cluster.load(claim("big", 2))
    async with reconciling(cluster, prepare=lambda f: f.on("POST", "/events", forbid)) as running:
        await asked.wait()
        cluster.load(claim("c"))
        await running.heard(Allocated)
    assert cluster.devices("c") == ["n/d0"]


async def test_events_can_be_switched_off():
    cluster = fleet("d0")
    cluster.load(claim("big", 3))
    async with reconciling(cluster, events=False) as running:
        await running.heard(Waits)
        cluster.load(claim("small"))
        await running.heard(Allocated)
    assert cluster.events("big") == []
    assert not [path for path in running.faulty.sent if path.endswith("/events")]
