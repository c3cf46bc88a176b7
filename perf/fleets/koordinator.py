"""Koordinator's machines: eight GPUs on four PCIe switches, a NIC with virtual functions on each."""

from collections.abc import Iterator

from perf.fleets.objects import Json, node_names
from reconciler.plugins.koordinator.vocabulary import Device

GPUS_A_NODE = 8
SWITCHES = 4
VFS_A_NIC = 8


def machines(nodes: int) -> Iterator[Device]:
    """One Device object a node."""
    for name in node_names(nodes):
        yield Device.model_validate({"metadata": {"name": name}, "spec": {"devices": devices(name)}})


def devices(name: str) -> list[Json]:
    """GPUs two a switch, a NIC each; half of the switches on either NUMA node."""
    gpus = [
        {
            "type": "gpu", "id": f"GPU-{name}-{minor}", "minor": minor, "health": True,
            "resources": {
                "koordinator.sh/gpu-core": "100",
                "koordinator.sh/gpu-memory-ratio": "100",
                "koordinator.sh/gpu-memory": "80Gi",
            },
            "topology": topology(minor * SWITCHES // GPUS_A_NODE),
        }
        for minor in range(GPUS_A_NODE)
    ]  # fmt: skip
    nics = [
        {
            "type": "rdma", "id": f"0000:{minor + 1:02x}:00.0", "minor": minor, "health": True,
            "resources": {"koordinator.sh/rdma": "100"},
            "topology": topology(minor),
            "vfGroups": [{"vfs": [function(minor, number) for number in range(VFS_A_NIC)]}],
        }
        for minor in range(SWITCHES)
    ]  # fmt: skip
    return [*gpus, *nics]


def function(nic: int, number: int) -> Json:
    """A virtual function, as the node agent tells of it."""
    return {"minor": -1, "busID": f"0000:{nic + 1:02x}:00.{number + 1}"}


def topology(switch: int) -> Json:
    """Where the devices of a switch sit."""
    return {"socketID": -1, "nodeID": switch * 2 // SWITCHES, "pcieID": str(switch)}
