"""Nodes of eight GPUs and eight NICs, a pair on each PCIe switch, in racks and blocks."""

from collections.abc import Iterator

from perf.fleets.objects import Json, claim, device_class, exactly, node, node_names, pool
from reconciler.api.objects.core import GATE

GPU, NIC = "gpu.example.com", "nic.example.com"
SWITCH = "resource.kubernetes.io/pcieRoot"
RACK, BLOCK = "topology.example.com/rack", "topology.example.com/block"
GPUS_A_NODE = 8
JOINT = "dra-reconciler.io/joint-allocation"


def nodes(number: int, racks: int, blocks: int) -> list[Json]:
    """The nodes, spread over racks, the racks over blocks."""
    made = []
    for at, name in enumerate(node_names(number)):
        rack = at * racks // number
        raw = node(name)
        raw["metadata"]["labels"] |= {RACK: f"rack-{rack:03}", BLOCK: f"block-{rack * blocks // racks:02}"}
        raw["status"] = {"allocatable": {"cpu": "128", "memory": "2Ti", "pods": "110"}}
        made.append(raw)
    return made


def fleet(machines: list[Json]) -> Iterator[Json]:
    """Classes, nodes, and the pools of each node."""
    for driver in (GPU, NIC):
        yield device_class(driver, f"device.driver == '{driver}'")
    for raw in machines:
        name = raw["metadata"]["name"]
        yield raw
        for driver, short in ((GPU, "gpu"), (NIC, "nic")):
            devices = [
                {"name": f"{short}-{n}", "attributes": {SWITCH: {"string": f"{name}-{n}"}}}
                for n in range(GPUS_A_NODE)
            ]
            yield from pool(driver, name, devices, reach={"nodeName": name})


def gpu_claim(name: str, gpus: int) -> Json:
    """A claim of GPUs."""
    return claim(name, [exactly("gpu", GPU, count=gpus)])


def paired_claim(name: str, pairs: int) -> Json:
    """A claim of GPUs and NICs, each pair on one PCIe switch."""
    raw = claim(name, [exactly("gpu", GPU, count=pairs), exactly("nic", NIC, count=pairs)])
    raw["metadata"]["annotations"] = {
        JOINT: f'{{"pairs": true, "tiers": ["{SWITCH}"], "required": "{SWITCH}"}}'
    }
    return raw


def pod(name: str, cpu: int = 8) -> Json:
    """A gated pod with one claim of its name."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-pod-{name}",
            "labels": {"index": name},
        },
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": {"cpu": str(cpu), "memory": "64Gi"}}}],
            "schedulingGates": [{"name": GATE}],
            "resourceClaims": [{"name": "devices", "resourceClaimName": name}],
        },
    }
