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
