"""Devices held at odds, and expressions that fail, are noticed while the reconciler runs."""

from typing import Any

from reconciler.api.versions.extensions import ANNOTATION
from reconciler.control.decisions.allocating import Allocated, ExclusionViolated, HeldTwice, Waits
from tests.tools.replicas import replicas
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, held, node, pod


def fleet(expression: str) -> Cluster:
    """The first device tells in the annotation beside which others it can be held."""
    slice_ = devices("n", "d0", "d1")
    text = f'{{"d0": {{"compatibleOnlyWith": {{"expression": "{expression}"}}}}}}'
    slice_["metadata"]["annotations"] = {ANNOTATION: text}
    return Cluster([node("n"), device_class(), slice_])


def holding(name: str, device: str) -> dict[str, Any]:
    return {**claim(name, managed=False), "status": held(DRIVER, "n", device)}


async def test_what_is_held_stands_against_others_by_the_annotation():
    cluster = fleet("false")
    cluster.load(holding("a", "d0"), claim("late"))
    async with reconciling(cluster) as running:
        waits = await running.told(Waits, reason="DevicesExcluded")
    assert "d0 is held by default/a and compatible only with false" in waits.message


async def test_devices_held_at_odds_are_told_and_left_alone():
    cluster = fleet("false")
    cluster.load(holding("a", "d0"), holding("b", "d1"), claim("late"))
    async with reconciling(cluster) as running:
        (odd,) = await running.heard(ExclusionViolated)
        await running.heard(Waits)
    assert (
        "d0 is held by default/a and compatible only with false, but d1 is held by default/b without a group"
        in odd.message
    )
    assert running.of(ExclusionViolated) == [odd]
    assert odd.line.event == "exclusive devices held together"
    assert [cluster.devices(name) for name in "ab"] == [["n/d0"], ["n/d1"]]


async def test_their_claims_and_pods_have_an_event():
    """Who looks at the pod of one of them learns of the other, and what to do."""
    cluster = fleet("false")
    cluster.load(pod("p", "a", gates=()))
    uid = cluster.pod("p")["metadata"]["uid"]
    user = {"resource": "pods", "name": "p", "uid": uid}
    used = holding("a", "d0")
    cluster.load({**used, "status": {**used["status"], "reservedFor": [user]}}, holding("b", "d1"))
    async with reconciling(cluster):
        await cluster.until(lambda: all(map(cluster.events, "abp")))
    for name in "abp":
        (event,) = cluster.events(name)
        assert (event["type"], event["reason"], event["action"]) == (
            "Warning", "IncompatibleDevices", "Auditing",
        )  # fmt: skip
        assert "d0 is held by default/a" in event["message"]
        assert "d1 is held by default/b" in event["message"]
        assert event["message"].endswith("delete the pods of one of the claims.")


async def test_a_replica_that_does_not_lead_yet_writes_the_event_once_it_does():
    """On its first start it finds them long before the Lease lets it write."""
    status = held(DRIVER, "a", "d0")
    claims = [{**claim(name, managed=False), "status": status} for name in "xy"]
    async with replicas(*claims) as found:
        one = found.start()
        await one.heard(HeldTwice)
        assert found.lease() is None
        await found.cluster.until(lambda: all(map(found.cluster.events, "xy")))
    assert {e["reason"] for name in "xy" for e in found.cluster.events(name)} == {"DeviceHeldTwice"}


async def test_an_expression_that_fails_is_told():
    cluster = fleet("device.nonsense")
    cluster.load(claim("first"))
    async with reconciling(cluster) as running:
        (odd,) = await running.heard(ExclusionViolated)
        await running.heard(Allocated)
    assert "d0: compatibleOnlyWith" in odd.message
    assert odd.line.event == "compatibleOnlyWith failed"
