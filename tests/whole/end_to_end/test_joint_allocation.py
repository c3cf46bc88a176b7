"""Wishes on a live server: devices near each other, and the annotation that says how near."""

import yaml

from tests.tools.checkout import DOCS
from tests.tools.running_reconciler import Cluster, reconciling

EXAMPLE = DOCS / "examples" / "joint-allocation.yaml"


async def test_the_example_is_allocated_as_from_files_and_told_why_not():
    cluster = Cluster(yaml.safe_load_all(EXAMPLE.read_text()))
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
