"""From a gated pod to one with devices, a node and no gate, and back when it ends."""

import json
from typing import Any

import pytest

from reconciler.api.objects.core import GATE
from reconciler.api.objects.meta import ObjectKey
from reconciler.app.from_settings import check, ownership
from reconciler.control.decisions.allocating import DevicesGiven, HeldBack, Overdrawn, Ungated, Waits
from reconciler.errors import Rejected
from reconciler.plugins.koordinator import vocabulary
from reconciler.settings import Settings
from tests.tools.koordinator_builders import gpu, nic
from tests.tools.koordinator_cluster import DEVICE, NODE, POD, KoordinatorCluster, machine, running, wants
from tests.tools.small_fleet import claim, device_class, devices, node

GPU = {"nvidia.com/gpu": 1}
FIELD = {"key": "metadata.name", "operator": "In", "values": ["a"]}


def small(*nodes: str) -> KoordinatorCluster:
    """Nodes with one GPU each."""
    return KoordinatorCluster([part for name in nodes for part in (node(name), machine(name, gpu(0)))])


async def test_a_gated_pod_gets_devices_and_a_node_and_loses_its_gate():
    cluster = KoordinatorCluster([node("a"), machine("a", gpu(0, (0, "x")), nic(0, (0, "x"), vfs=2))])
    joint = {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}
    said = {vocabulary.JOINT_ALLOCATE: joint, vocabulary.ALLOCATE_HINT: {"rdma": {"vfSelector": {}}}}
    cluster.load(wants("p", {**GPU, "rdma": 1}, annotations=said, gates=("other", GATE)))
    async with running(cluster) as run:
        (equipped,) = await run.heard(DevicesGiven)
        await run.heard(Ungated)
    assert equipped.node == "a"
    assert [str(device) for device in equipped.devices] == ["gpu/a/0", "rdma/a/0"]
    pod = cluster.pod("p")
    assert pod["metadata"]["annotations"][vocabulary.ALLOCATED] == (
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100","koordinator.sh/gpu-memory":"80Gi",'
        '"koordinator.sh/gpu-memory-ratio":"100"},"id":"gpu-0"}],"rdma":[{"minor":0,"resources":'
        '{"koordinator.sh/rdma":"1"},"id":"rdma-0","extension":{"vfs":[{"busID":"00:00.0"}]}}]}'
    )
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required == {"nodeSelectorTerms": [{"matchFields": [FIELD]}]}
    assert pod["spec"]["schedulingGates"] == [{"name": "other"}]


async def test_what_a_pod_requires_of_its_node_is_kept_and_tightened():
    cluster = small("a", "b")
    zone = {"key": "zone", "operator": "In", "values": ["z"]}
    cluster.api.update(NODE, "", "b", lambda n: {**n, "metadata": {**n["metadata"], "labels": {"zone": "z"}}})
    preferred = [{"weight": 1, "preference": {"matchExpressions": [zone]}}]
    terms = [{"matchExpressions": [zone]}, {"matchFields": [FIELD | {"values": ["nowhere"]}]}]
    affinity = {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []},
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        },
    }
    cluster.load(wants("p", GPU, affinity=affinity))
    async with running(cluster) as run:
        await run.heard(DevicesGiven)
    found = cluster.pod("p")["spec"]["affinity"]
    assert found["podAntiAffinity"] == affinity["podAntiAffinity"]
    node_affinity = found["nodeAffinity"]
    assert node_affinity["preferredDuringSchedulingIgnoredDuringExecution"] == preferred
    pin = FIELD | {"values": ["b"]}
    assert node_affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] == [
        {"matchExpressions": [zone], "matchFields": [pin]},
        {"matchFields": [FIELD | {"values": ["nowhere"]}, pin]},
    ]
    assert cluster.on("p") == "b"


@pytest.mark.parametrize("how", ["Succeeded", "Failed", "deleted"])
async def test_devices_come_back_when_the_pod_ends(how: str):
    cluster = small("a")
    cluster.load(wants("first", GPU))
    async with running(cluster) as run:
        await run.heard(DevicesGiven)
        cluster.load(wants("second", GPU))
        waits = await run.told(Waits, pod=ObjectKey("default", "second"), reason="InsufficientDevices")
        assert waits.message == "0/1 nodes can give the devices: 1 with too few free devices"
        assert [gate.left for gate in waits.counts[0].gates] == [1, 1, 1, 1, 1, 0]
        if how == "deleted":
            cluster.remove("first")
        else:
            cluster.end("first", how)
        await run.heard(DevicesGiven, 2)
    assert cluster.given("second") == {"gpu": [0]}


async def test_a_pod_that_is_being_deleted_holds_its_devices_until_it_is_gone():
    cluster = small("a")
    held = wants("first", GPU)
    held["metadata"]["finalizers"] = ["example.com/wait"]
    cluster.load(held)
    async with running(cluster) as run:
        await run.heard(DevicesGiven)
        cluster.remove("first")
        cluster.load(wants("second", GPU))
        await run.heard(Waits)
        assert cluster.pod("first")["metadata"]["deletionTimestamp"]


async def test_a_restart_reads_back_what_is_held_bound_or_not():
    """GPUs of a pod that is bound, and of one that is only tied to its node, are given to nobody else."""
    cluster = KoordinatorCluster([node("a"), machine("a", gpu(0), gpu(1), gpu(2))])
    cluster.load(wants("bound", GPU), wants("tied", GPU))
    async with running(cluster) as run:
        await run.heard(DevicesGiven, 2)
    cluster.api.update(
        POD,
        "default",
        "bound",
        lambda shown: {**shown, "spec": {**shown["spec"], "nodeName": "a"}},
        subresource="binding",
    )
    cluster.load(wants("next", GPU), wants("last", GPU))
    async with running(cluster) as run:
        await run.heard(DevicesGiven)
        await run.heard(Waits)
    every = [*cluster.given("bound").get("gpu", ()), *cluster.given("tied")["gpu"]]
    every += cluster.given("next").get("gpu", []) + cluster.given("last").get("gpu", [])
    assert sorted(every) == [0, 1, 2]


@pytest.mark.parametrize("policy", ["DeviceLevel", "PCIeLevel"])
async def test_an_exclusive_holder_keeps_others_out_after_a_restart(policy: str):
    """The NIC has room for both by amounts; who holds it wants to be alone, and its annotation says so."""
    here, there = (0, "x"), (0, "y")
    cluster = KoordinatorCluster([node("a"), machine("a", nic(0, here), nic(1, here), nic(2, there))])
    alone = {vocabulary.ALLOCATE_HINT: {"rdma": {"exclusivePolicy": policy}}}
    cluster.load(wants("alone", {"rdma": 1}, annotations=alone))
    async with running(cluster) as run:
        await run.heard(DevicesGiven)
    assert cluster.given("alone") == {"rdma": [0]}
    cluster.load(wants("other", {"rdma": 1}))
    async with running(cluster) as run:
        await run.heard(DevicesGiven)
    assert cluster.given("other") == {"rdma": [1 if policy == "DeviceLevel" else 2]}


async def test_what_others_write_counts_from_then_on():
    cluster = small("a", "b")
    async with running(cluster) as run:
        theirs = {"gpu": [{"minor": 0, "resources": {"koordinator.sh/gpu-core": "100"}}]}
        cluster.load(wants("theirs", GPU, gates=(), annotations={vocabulary.ALLOCATED: theirs}, nodeName="a"))
        cluster.load(wants("p", GPU))
        await run.heard(DevicesGiven)
        assert cluster.on("p") == "b"
        cluster.load(wants("again", GPU, gates=(), annotations={vocabulary.ALLOCATED: theirs}, nodeName="a"))
        (found,) = await run.heard(Overdrawn)
    assert str(found.device) == "gpu/a/0"
    assert [key.name for key in found.pods] == ["again", "theirs"]


async def test_a_malformed_annotation_refuses_that_pod_alone():
    cluster = small("a")
    cluster.load(wants("bad", GPU, annotations={vocabulary.ALLOCATE_HINT: '{"gpu": {\n  "selector": }}'}))
    cluster.load(wants("good", GPU))
    async with running(cluster) as run:
        await run.heard(DevicesGiven)
        waits = await run.told(Waits, pod=ObjectKey("default", "bad"), reason="MalformedAnnotation")
    assert f"{vocabulary.ALLOCATE_HINT}: not JSON at line 2 column 15" in waits.message
    assert cluster.served("good")
    assert not cluster.served("bad")


async def test_a_pod_with_claims_and_requests_is_refused_with_the_remedy():
    cluster = KoordinatorCluster([node("a"), machine("a", gpu(0)), device_class(), devices("a", "d")])
    both = wants("p", GPU, resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
    cluster.load(claim("c"), both)
    async with running(cluster) as run:
        await run.told(Waits, reason="TwoKindsOfDevices")
        cluster.load(wants("next", GPU))
        await run.heard(DevicesGiven)
    assert not cluster.served("p")
    assert not cluster.devices("c")


async def test_a_gated_pod_that_holds_devices_already_is_left_to_people():
    """It may be a copy of another pod: what it says that it has, nobody gave it."""
    copied = {"gpu": [{"minor": 0, "resources": {"koordinator.sh/gpu-core": "100"}}]}
    cluster = small("a")
    cluster.load(wants("copy", GPU, annotations={vocabulary.ALLOCATED: copied}))
    async with running(cluster) as run:
        await run.told(Waits, reason="HoldsDevices")
    assert cluster.given("copy") == {"gpu": [0]}
    assert cluster.gated("copy")


async def test_nodes_that_a_pod_cannot_run_on_are_left_out():
    cluster = small("a", "b")
    cluster.change(NODE, "a", spec={"unschedulable": True})
    cluster.load(wants("p", GPU))
    async with running(cluster) as run:
        await run.heard(DevicesGiven)
        assert cluster.on("p") == "b"
        cluster.load(wants("q", GPU))
        waits = await run.told(Waits, reason="NoSuitableNode")
        assert "1 could, but the pod cannot run there" in waits.message
        cluster.change(NODE, "a", spec={})
        await run.heard(DevicesGiven, 2)
    assert cluster.on("q") == "a"


async def test_a_machine_that_recovers_or_appears_wakes_who_waits():
    cluster = KoordinatorCluster([node("a"), node("b"), machine("a", gpu(0, health=False))])
    cluster.load(wants("p", GPU), wants("q", GPU))
    async with running(cluster, backoff_base_seconds=60.0) as run:
        await run.heard(Waits, 2)
        cluster.change(DEVICE, "a", spec={"devices": [gpu(0)]})
        await run.heard(DevicesGiven)
        cluster.load(machine("b", gpu(0)))
        await run.heard(DevicesGiven, 2)
    assert {cluster.on("p"), cluster.on("q")} == {"a", "b"}


async def test_the_higher_priority_goes_first_whatever_kind_of_devices_it_asks_for():
    cluster = small("a")
    cluster.load(wants("low", GPU), wants("high", GPU, priority=10))
    async with running(cluster) as run:
        await run.heard(DevicesGiven)
        await run.heard(Waits)
    assert cluster.served("high")
    assert not cluster.served("low")


@pytest.mark.parametrize(("semantics", "expected"), [("proposal", Waits), ("upstream", DevicesGiven)])
async def test_the_semantics_are_a_setting(semantics: str, expected: type[Waits] | type[DevicesGiven]):
    """The release has PCIeLevel do nothing: it gives a part of a NIC that is in use."""
    cluster = KoordinatorCluster([node("a"), machine("a", nic(0, (0, "x")))])
    alone = {vocabulary.ALLOCATE_HINT: {"rdma": {"exclusivePolicy": "PCIeLevel"}}}
    cluster.load(wants("first", {"rdma": 1}))
    async with running(cluster, koordinator_semantics=semantics) as run:
        await run.heard(DevicesGiven)
        cluster.load(wants("alone", {"rdma": 1}, annotations=alone))
        last = (await run.heard(expected, 2 if expected is DevicesGiven else 1))[-1]
    assert last.pod == ObjectKey("default", "alone")


async def test_without_the_setting_a_gated_pod_just_goes_on():
    cluster = small("a")
    cluster.load(wants("p", GPU))
    async with running(cluster, koordinator=False) as run:
        await run.heard(Ungated)
    assert cluster.given("p") == {}


async def test_claims_and_devices_are_served_side_by_side():
    cluster = KoordinatorCluster([node("a"), machine("a", gpu(0)), device_class(), devices("a", "d")])
    cluster.load(claim("c"), wants("p", GPU))
    async with running(cluster) as run:
        await run.heard(DevicesGiven)
        await cluster.until(lambda: cluster.devices("c"))
    found = json.loads(cluster.pod("p")["metadata"]["annotations"][vocabulary.ALLOCATED])["gpu"][0]["id"]
    assert found == "gpu-0"


def test_settings_name_what_they_need():
    with pytest.raises(Rejected, match="--koordinator"):
        ownership(Settings())
    assert not ownership(Settings(koordinator=True)).writes


async def test_what_a_pod_takes_of_its_node_counts_before_it_is_bound():
    """Devices are left, but no memory: the scheduler could not bring a second pod there."""
    cluster = KoordinatorCluster([node("a"), machine("a", gpu(0), gpu(1))])
    room = {"cpu": "4", "memory": "10Gi", "pods": "10"}
    cluster.api.update(NODE, "", "a", lambda n: {**n, "status": {"allocatable": room}}, subresource="status")
    cluster.load(big("first"))
    async with running(cluster) as run:
        await run.heard(DevicesGiven)
        await cluster.until(lambda: cluster.served("first"))
        cluster.load(big("second"))
        waits = await run.told(Waits, reason="NoSuitableNode")
        assert waits.message.endswith("0 of 1 nodes suit the pod: 1 Insufficient memory")
        cluster.end("first")
        await run.heard(DevicesGiven, 2)


def big(name: str) -> dict[str, Any]:
    """A pod that takes most of a node's memory."""
    found = wants(name, GPU)
    found["spec"]["containers"][0]["resources"]["requests"]["memory"] = "6Gi"
    return found


async def test_nothing_is_given_while_writes_are_paused():
    cluster = small("a")
    cluster.load(wants("p", GPU))
    async with running(cluster, pause=True) as run:
        (held,) = await run.heard(HeldBack)
        assert held.pod == ObjectKey("default", "p")
    assert cluster.gated("p")


def test_shards_are_refused_with_the_reason():
    """Leases could not tell whether two of them serve one machine, and others would ungate its pods."""
    settings = Settings(koordinator=True, leader_elect=True, shard="driver=gpu.example.com")
    with pytest.raises(Rejected, match=r"cannot be combined with --shard: .* would remove the gate of pods"):
        check(settings)
    check(settings.model_copy(update={"koordinator": False, "own_drivers": frozenset({"gpu.example.com"})}))


async def test_a_class_serves_the_same_name_until_there_are_device_objects():
    """The first pod waits until the class comes, the second for the first Device object."""
    cluster = KoordinatorCluster([node("a"), devices("a", "d0"), wants("p", GPU)])
    async with running(cluster, hand_over_calm_seconds=0.0) as run:
        (waits,) = await run.heard(Waits)
        assert waits.reason == "NoDevicesOfType"
        serves = device_class()
        serves["spec"]["extendedResourceName"] = "nvidia.com/gpu"
        cluster.load(serves)
        await cluster.until(lambda: cluster.served("p"))
        assert cluster.given("p") == {}
        assert cluster.on("p") == "a"
        cluster.load(wants("q", GPU))
        await run.heard(Waits, 2)
        cluster.load(machine("a", gpu(0)))
        await cluster.until(lambda: cluster.served("q"))
    assert cluster.given("q") == {"gpu": [0]}
