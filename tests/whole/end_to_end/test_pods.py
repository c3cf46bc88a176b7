"""Pods with our gate: all their claims together, on one node, then the scheduler's turn."""

import asyncio
from typing import Any

from reconciler.api.objects.claims import POD_CLAIM
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.validation.served_kinds import POD
from reconciler.control.decisions.allocating import Allocated, Freed, Ungated, Waits
from reconciler.embedded.controllers import run_controllers
from tests.tools.running_reconciler import SETTLED, Cluster, reconciling
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, held, node, pod, template

SLOW: dict[str, Any] = {"backoff_base_seconds": 600.0, "backoff_cap_seconds": 600.0}


def fleet(**nodes: int) -> Cluster:
    """Nodes with so many devices each."""
    cluster = Cluster([device_class()])
    for name, count in nodes.items():
        cluster.load(node(name, **{"kubernetes.io/hostname": name}))
        cluster.load(devices(name, *(f"d{number}" for number in range(count))))
    return cluster


def nodes_of(cluster: Cluster, *claims: str) -> set[str]:
    """The pools, called like their nodes, of the devices that claims hold."""
    return {device.partition("/")[0] for name in claims for device in cluster.devices(name)}


async def test_the_claims_of_a_gated_pod_are_allocated_together_on_one_node():
    """One by one, first fit would have put the first claim on node a, where the second cannot follow."""
    cluster = fleet(a=2, b=3)
    cluster.load(claim("one", 1), claim("two", 2, managed=False), pod("p", "one", "two"))
    async with reconciling(cluster) as running:
        await running.heard(Ungated)
    assert nodes_of(cluster, "one", "two") == {"b"}
    assert not cluster.gated("p")


async def test_a_pod_with_claims_from_templates_runs_where_its_devices_are():
    cluster = fleet(a=1, b=2)
    cluster.load(template("t"), pod("p", templates=("t", "t")))
    async with reconciling(cluster, controllers=True):
        await cluster.until(lambda: cluster.phase("p") == "Running")
    assert cluster.pod("p")["spec"]["nodeName"] == "b"
    assert all(found["status"]["reservedFor"][0]["name"] == "p" for found in cluster.claims())


async def test_a_pod_waits_until_all_its_claims_are_made():
    cluster = fleet(a=2)
    cluster.load(claim("one"), pod("p", "one", templates=("t",)))
    async with reconciling(cluster, controllers=True) as running:
        await running.heard(Waits)
        assert running.waits("one") == ["ClaimNotMade"]
        cluster.load(template("t"))
        await cluster.until(lambda: cluster.phase("p") == "Running")


async def test_a_pod_that_names_a_claim_nobody_made_says_so():
    cluster = fleet(a=1)
    cluster.load(pod("p", "later"))
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Waits)
        assert running.waits("later") == ["ClaimNotFound"]
        cluster.load(claim("later", managed=False))
        await running.heard(Ungated)


async def test_a_gated_pod_without_claims_is_ungated_at_once():
    cluster = fleet(a=1)
    cluster.load(pod("p"))
    async with reconciling(cluster) as running:
        await running.heard(Ungated)
    assert not cluster.gated("p")


async def test_a_claim_that_is_named_twice_is_one_claim():
    cluster = fleet(a=1)
    cluster.load(claim("one"), pod("p", "one", "one"))
    async with reconciling(cluster) as running:
        await running.heard(Ungated)
    assert cluster.devices("one") == ["a/d0"]


async def test_pods_that_share_a_claim_are_all_ungated():
    cluster = fleet(a=1)
    cluster.load(claim("shared"), pod("p", "shared"), pod("q", "shared"))
    async with reconciling(cluster) as running:
        await running.heard(Ungated, 2)
    assert not cluster.gated("p")
    assert not cluster.gated("q")
    assert len(running.of(Allocated)) == 1


async def test_half_of_a_joint_decision_is_taken_back_when_the_other_half_does_not_fit():
    """As after a crash between two writes: the claim was made for this pod alone, so nobody minds."""
    cluster = fleet(a=1, b=2)
    cluster.load(template("t"), pod("p", templates=("t", "t")))
    async with run_controllers(cluster.api):
        await cluster.until(lambda: len(cluster.claims()) == 2)
    first = min(found["metadata"]["name"] for found in cluster.claims())
    cluster.edit(first, status=True, **held(DRIVER, "a", "d0", on="a"))
    async with reconciling(cluster) as running:
        await running.heard(Ungated)
        assert [freed.claim.name for freed in running.of(Freed)] == [first]
    assert nodes_of(cluster, *(found["metadata"]["name"] for found in cluster.claims())) == {"b"}


async def test_a_pod_that_goes_leaves_its_claim_to_itself():
    """A labelled claim is ours with or without a pod; while one names it, the pod says where."""
    cluster = fleet(a=1)
    cluster.load(claim("one"), pod("p", "one", nodeSelector={"kubernetes.io/hostname": "nowhere"}))
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Waits)
        cluster.api.delete(POD, "default", "p")
        (told,) = await running.heard(Allocated)
    assert told.claim == ObjectKey("default", "one")


async def test_a_finished_pod_frees_its_devices_for_who_waits():
    cluster = fleet(a=1)
    first = pod("first", templates=("t",))
    first["metadata"]["annotations"] = {"dra-reconciler.io/run-seconds": "0"}
    cluster.load(template("t"), first)
    async with reconciling(cluster, controllers=True, **SLOW):
        cluster.load(pod("second", templates=("t",)))
        await cluster.until(lambda: cluster.phase("second") == "Running")
    assert cluster.phase("first") == "Succeeded"


async def test_a_claim_is_allocated_before_its_pod_names_it_and_the_gate_waits_for_the_name():
    cluster = fleet(a=1)
    cluster.load(pod("p", templates=("t",)))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": cluster.pod("p")["metadata"]["uid"]}
    made = claim("p-t0-x", managed=False)
    made["metadata"] |= {"annotations": {POD_CLAIM: "t0"}, "ownerReferences": [{**owner, "controller": True}]}
    async with reconciling(cluster) as running:
        await running.heard(Waits)
        cluster.load(made)
        await running.heard(Allocated)
        assert cluster.devices("p-t0-x") == ["a/d0"]
        await asyncio.sleep(SETTLED)
        assert cluster.gated("p")
        names = [{"name": "t0", "resourceClaimName": "p-t0-x"}]
        cluster.api.update(
            POD, "default", "p", lambda shown: {**shown, "status": {"resourceClaimStatuses": names}},
            subresource="status",
        )  # fmt: skip
        await running.heard(Ungated)
    assert not cluster.gated("p")
