"""Gated pods get devices where kube-scheduler can follow: taints, room, cordons."""

from typing import Any

from reconciler.control.decisions.allocating import Allocated, Ungated, Waits
from tests.tools.running_reconciler import reconciling
from tests.tools.shared_clusters import SLOW, asking, bind, change_node, fleet, gone, machine
from tests.tools.small_fleet import claim, pod

TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def where(cluster: Any, name: str) -> str:
    """The node of a claim's devices, whose pool is called like it."""
    return str(cluster.devices(name)[0]).partition("/")[0]


async def test_pods_that_were_ungated_count_on_their_node_before_they_are_bound():
    """kube-scheduler takes its time; meanwhile the next pod must not be sent to the same room."""
    cluster = fleet(machine("a", cpu="3"), machine("b", cpu="3"))
    cluster.load(*(claim(name) for name in "xyz"))
    cluster.load(*(pod(f"p-{name}", name, **asking(cpu="2")) for name in "xyz"))
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Ungated, 2)
        waits = await running.told(Waits, reason="NoNode")
        assert {where(cluster, name) for name in "xyz" if cluster.devices(name)} == {"a", "b"}
        assert "0 of 2 nodes suit the pod: 2 Insufficient cpu" in waits.message
        gone(cluster, next(f"p-{name}" for name in "xyz" if cluster.devices(name)))
        await running.heard(Ungated, 3)


async def test_pods_of_others_count_until_they_end():
    cluster = fleet(machine("a", cpu="4"))
    cluster.load(pod("big", gates=(), **asking(cpu="3")), claim("one"), pod("p", "one", **asking(cpu="2")))
    bind(cluster, "big", "a")
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Waits)
        gone(cluster, "big")
        await running.heard(Ungated)
    assert where(cluster, "one") == "a"


async def test_a_node_that_becomes_ready_is_taken_at_once():
    cluster = fleet(machine("a", ready="False"))
    cluster.load(claim("one"), pod("p", "one"))
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Waits)
        change_node(cluster, "a", machine("a"))
        await running.heard(Ungated)


async def test_a_claim_without_a_pod_avoids_nodes_that_take_no_pods():
    """What the pods tolerate that will use it is not known; that nobody can go there is."""
    cluster = fleet(
        machine("a", spec={"unschedulable": True}),
        machine("b", ready="Unknown"),
        machine("c", spec={"taints": [TAINT]}),
    )
    cluster.load(claim("one"))
    async with reconciling(cluster) as running:
        await running.heard(Allocated)
    assert where(cluster, "one") == "c"
