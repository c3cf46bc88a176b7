"""Nodes of whole GPUs, half of them on either NUMA node; no counters."""

from collections.abc import Iterator

from perf.fleets.objects import Json, device_class, node, node_names, pool

DRIVER = "gpu.example.com"
CLASS = "gpu.example.com"
NUMA = f"{DRIVER}/numa"
GPUS_A_NODE = 8


def fleet(nodes: int) -> Iterator[Json]:
    """Nodes, the class of all GPUs, and a slice a node."""
    yield device_class(CLASS, f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'")
    for name in node_names(nodes):
        yield node(name)
        yield from node_slices(name)


def node_slices(
    name: str, gpus: int = GPUS_A_NODE, model: str = "H100", memory: str = "80Gi"
) -> Iterator[Json]:
    """The pool of one node."""
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {
                "type": {"string": "gpu"},
                "model": {"string": model},
                "index": {"int": number},
                "numa": {"int": number * 2 // gpus},
                "uuid": {"string": f"GPU-{name}-{number}"},
                "driverVersion": {"version": "550.54.15"},
            },
            "capacity": {"memory": {"value": memory}},
        }
        for number in range(gpus)
    ]
    return pool(DRIVER, name, devices, reach={"nodeName": name})
