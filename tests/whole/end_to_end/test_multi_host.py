"""A device that several hosts share: pods of one workload run where its parts are."""

import yaml

from reconciler.control.decisions.allocating import Ungated
from tests.tools.checkout import DOCS
from tests.tools.running_reconciler import Cluster, reconciling

EXAMPLE = DOCS / "examples" / "multi-host-tpu.yaml"


async def test_pods_that_share_a_multi_host_device_run_on_its_nodes():
    """The device is found by its capacity; its node selector becomes that of the claim."""
    cluster = Cluster(yaml.safe_load_all(EXAMPLE.read_text()))
    async with reconciling(cluster, controllers=True) as running:
        await running.heard(Ungated, 2)
        await cluster.until(lambda: all(cluster.phase(f"worker-{n}") == "Running" for n in (0, 1)))
    assert cluster.devices("eight-chips") == ["tpu/tpu-2x4-1"]
    allocation = cluster.claim("eight-chips")["status"]["allocation"]
    assert allocation["nodeSelector"]["nodeSelectorTerms"] == [
        {
            "matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1", "node-2"]}
            ]
        }
    ]
    assert {cluster.pod(f"worker-{n}")["spec"]["nodeName"] for n in (0, 1)} <= {"node-1", "node-2"}
    reserved = cluster.claim("eight-chips")["status"]["reservedFor"]
    assert sorted(entry["name"] for entry in reserved) == ["worker-0", "worker-1"]


# -- Wishes on a live server: devices near each other, and the annotation that says how near.


JOINT_EXAMPLE = DOCS / "examples" / "joint-allocation.yaml"


async def test_the_example_is_allocated_as_from_files_and_told_why_not():
    cluster = Cluster(yaml.safe_load_all(JOINT_EXAMPLE.read_text()))
    async with reconciling(cluster, all_claims=True, event_delay_seconds=0):
        await cluster.until(lambda: cluster.devices("near") and cluster.devices("wide"))
        await cluster.until(lambda: cluster.events("within"))
    near = cluster.claim("near")
    assert near is not None
    tiers = near["metadata"]["annotations"]["dra-reconciler.io/joint-allocation-tiers"]
    assert tiers == "resource.kubernetes.io/pcieRoot"
    assert cluster.devices("near") == ["node-1/gpu-2", "node-1/nic-0"]
    assert cluster.devices("wide") == ["node-1/gpu-4", "node-1/gpu-5"]
    (event,) = cluster.events("within")
    assert event["reason"] == "AlignmentUnmet"
    note = event.get("message") or event["note"]
    assert "that share numaNode, which joint allocation requires" in note
    assert "nearest miss node-1: numaNode 0: 3 of 3 for request gpu" in note
