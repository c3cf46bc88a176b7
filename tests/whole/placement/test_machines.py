"""Koordinator's devices: the reconciler and `allocate` give pods the same machines, in the same order."""

from dataclasses import dataclass
from typing import Any

import pytest

from reconciler.api.objects.semantics import Semantics
from reconciler.control.decisions.allocating import DevicesGiven, Waits
from reconciler.control.offline import decide
from reconciler.plugins.koordinator import vocabulary
from tests.tools.front_ends import read, served
from tests.tools.koordinator_builders import gpu
from tests.tools.koordinator_cluster import KoordinatorCluster, machine, running, wants
from tests.tools.placement_scenarios import CORDONED, OLD, TAINTED, TOLERATING, YOUNG, asking, made, sized
from tests.tools.placement_scenarios import machine as node
from tests.tools.small_fleet import Object, claim, device_class, devices

GPU = {"nvidia.com/gpu": 1}


@dataclass(frozen=True)
class Scenario:
    """A few objects; which pods get the devices of which node, and the reasons of the others."""

    objects: list[Object]
    given: dict[str, str]
    refused: dict[str, str]
    live: bool = True
    """Whether a reconciler has to decide in this order: it does not let machines wait for selectors"""


def fleet(*nodes: Object, count: int = 2) -> list[Object]:
    return [*nodes, *(machine(one["metadata"]["name"], *map(gpu, range(count))) for one in nodes)]


def cpu(pod: Object, amount: str) -> Object:
    """The same pod, which requests that much CPU, too."""
    (container,) = pod["spec"]["containers"]
    requests = {**container["resources"]["requests"], "cpu": amount}
    resources = {**container["resources"], "requests": requests}
    return {**pod, "spec": {**pod["spec"], "containers": [{**container, "resources": resources}]}}


SCENARIOS = {
    "a cordoned node takes no pod": Scenario(
        [*fleet(node("a", spec=CORDONED), node("b")), wants("p", GPU)], {"p": "b"}, {}
    ),
    "a tainted node takes pods that tolerate it": Scenario(
        [*fleet(node("a", spec=TAINTED), node("b")), wants("p", GPU), wants("q", GPU, **TOLERATING)],
        {"p": "b", "q": "a"},
        {},
    ),
    "a pod that suits no node": Scenario(
        [*fleet(node("a")), wants("p", GPU, nodeSelector={"zone": "z"})], {}, {"p": "NoSuitableNode"}
    ),
    "pods take room besides devices": Scenario(
        [
            *fleet(sized(node("a"), cpu="2"), sized(node("b"), cpu="2"), count=4),
            *(cpu(wants(name, GPU), "2") for name in "pqr"),
        ],
        {"p": "a", "q": "b"},
        {"r": "NoSuitableNode"},
    ),
    "pods with claims take the room of others": Scenario(
        [
            *fleet(sized(node("a"), cpu="2")),
            device_class(),
            devices("a", "d0"),
            claim("x"),
            asking("p", "x", cpu="2"),
            cpu(wants("q", GPU), "1"),
        ],
        {},
        {"q": "NoSuitableNode"},
        live=False,
    ),
    "priority, then age, then name": Scenario(
        [
            *fleet(node("a"), count=3),
            wants("new", GPU),
            made(wants("young", GPU), YOUNG),
            made(wants("old", GPU), OLD),
            wants("urgent", GPU, priority=3),
        ],
        {"urgent": "a", "old": "a", "young": "a"},
        {"new": "InsufficientDevices"},
    ),
    "two kinds of devices": Scenario(
        [
            *fleet(node("a")),
            claim("x"),
            wants("p", GPU, resourceClaims=[{"name": "c", "resourceClaimName": "x"}]),
        ],
        {},
        {"p": "TwoKindsOfDevices"},
    ),
}
LIVE = {name: scenario for name, scenario in SCENARIOS.items() if scenario.live}


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_allocate(scenario: Scenario):
    found = decide(read(scenario.objects), Semantics()).devices
    assert found is not None
    assert [(one.pod.key.name, one.node) for one in found.given] == list(scenario.given.items())
    assert {key.name: why.reason for key, why in found.refused} == scenario.refused


@pytest.mark.parametrize("scenario", LIVE.values(), ids=LIVE)
async def test_the_live_loop(scenario: Scenario):
    cluster = KoordinatorCluster([])
    cluster.api = served(scenario.objects).api
    slow: dict[str, Any] = {"backoff_base_seconds": 600.0, "backoff_cap_seconds": 600.0}
    async with running(cluster, **slow) as seen:
        await seen.heard(DevicesGiven, len(scenario.given))
        await seen.heard(Waits, len(scenario.refused))
        assert {one.pod.name: one.node for one in seen.of(DevicesGiven)} == scenario.given
        waits = {one.pod.name: one.reason for one in seen.of(Waits) if one.pod is not None}
        assert waits == scenario.refused
    assert all(
        vocabulary.ALLOCATED in cluster.pod(name)["metadata"]["annotations"] for name in scenario.given
    )


def test_a_node_that_only_a_device_object_names_may_be_used_in_manifests():
    found = decide(read([machine("a", gpu(0)), wants("p", GPU)]), Semantics()).devices
    assert found is not None
    assert [one.node for one in found.given] == ["a"]
