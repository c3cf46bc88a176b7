"""What `kubectl describe` shows of claims and pods: why they are pending, and what they got."""

import asyncio
from functools import partial

from structlog.testing import capture_logs

from reconciler.api.validation.served_kinds import DEVICE_CLASS
from reconciler.cluster.transport import Response
from reconciler.control.decisions.allocating import Allocated, Waits
from tests.tools.faulty_transport import Held, Send, answer
from tests.tools.running_reconciler import Cluster, Running, reconciling
from tests.tools.small_fleet import claim, device_class, devices, node, pod, template

at_once = partial(reconciling, event_delay_seconds=0)
"""A reconciler that reports refusals without delay"""


def fleet(*names: str) -> Cluster:
    return Cluster([node("n"), device_class(), devices("n", *names)])


def warnings(cluster: Cluster, *names: str) -> list[str]:
    return [e["reason"] for name in names for e in cluster.events(name) if e["type"] == "Warning"]


async def test_a_claim_that_waits_has_an_event_with_reason_nearest_miss_and_remedy():
    cluster = fleet("d0", "d1")
    cluster.load(claim("big", 3))
    with capture_logs() as lines:
        async with at_once(cluster) as running:
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
    async with at_once(cluster):
        await cluster.until(lambda: all(map(cluster.events, ("a", "b", "p"))))
    (event,) = cluster.events("p")
    assert event["involvedObject"]["kind"] == "Pod"
    assert "cannot hold together: r, r" in event["message"], event["message"]


async def test_a_reason_that_comes_back_counts_on_and_another_is_another_event():
    cluster = fleet("d0")
    cluster.load(claim("c", 2))
    async with at_once(cluster, backoff_base_seconds=0.01):
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


async def test_a_claim_that_gets_its_devices_says_which_and_its_pod_that_the_gate_is_gone():
    cluster = fleet("d0", "d1")
    cluster.load(claim("c", 2), pod("p", "c"))
    async with at_once(cluster) as running:
        (allocated,) = await running.heard(Allocated)
        await cluster.until(lambda: cluster.events("c") and cluster.events("p"))
    (event,) = cluster.events("c")
    assert (event["type"], event["reason"], event["action"]) == ("Normal", "Allocated", "Allocating")
    assert event["message"] == "Allocated 2 devices on node n: gpu.example.com/n: d0, d1."
    assert event["metadata"]["annotations"] == {"dra-reconciler.io/decision-id": allocated.decision_id}
    assert (event["related"]["kind"], event["related"]["name"]) == ("Pod", "p")
    (event,) = cluster.events("p")
    assert (event["type"], event["reason"], event["action"]) == ("Normal", "Ungated", "Ungating")


async def test_pods_that_are_made_with_their_claims_get_no_warning():
    """Their claims are not created from the templates yet when the pods are seen first."""
    cluster = fleet(*(f"d{number}" for number in range(6)))
    names = [f"p{number}" for number in range(6)]
    cluster.load(template("t"), *(pod(name, templates=("t",)) for name in names))
    async with reconciling(cluster, controllers=True) as running:
        await cluster.until(lambda: all(map(cluster.events, names)))
        assert {waits.reason for waits in running.of(Waits)} <= {"ClaimNotMade"}
    assert warnings(cluster, *names) == []


async def test_pods_that_share_a_claim_get_no_warning_while_it_is_written():
    cluster = fleet("d0")
    held = Held()
    names = [f"p{number}" for number in range(4)]
    cluster.load(claim("shared", managed=False), *(pod(name, "shared") for name in names))

    async with at_once(cluster, prepare=lambda f: f.on("PATCH", "/shared/status", held)) as running:
        await held.arrived.wait()
        cluster.load(claim("other"))
        await refused(running, "other")
        await cluster.until(lambda: cluster.events("other"))
        held.go.set()
        await cluster.until(lambda: all(map(cluster.events, names)))
    assert warnings(cluster, "shared", *names) == []


async def refused(running: Running, name: str) -> None:
    while name not in (key.name for waits in running.of(Waits) for key in waits.claims):
        await running.heard(Waits, len(running.of(Waits)) + 1)


async def test_a_server_that_takes_no_events_delays_nothing():
    cluster = fleet("d0", "d1")
    cluster.load(claim("big", 3))
    held = Held()
    async with at_once(cluster, prepare=lambda f: f.on("POST", "/events", held)) as running:
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
    async with at_once(cluster, prepare=lambda f: f.on("POST", "/events", forbid)) as running:
        await asked.wait()
        cluster.load(claim("c"))
        await running.heard(Allocated)
    assert cluster.devices("c") == ["n/d0"]


async def test_events_can_be_switched_off():
    cluster = fleet("d0")
    cluster.load(claim("big", 3))
    async with at_once(cluster, events=False) as running:
        await running.heard(Waits)
        cluster.load(claim("small"))
        await running.heard(Allocated)
    assert cluster.events("big") == []
    assert not [path for path in running.faulty.sent if path.endswith("/events")]
