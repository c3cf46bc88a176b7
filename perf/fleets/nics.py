"""Nodes of network cards that many claims share, each taking bandwidth in steps of a gigabit."""

from collections.abc import Iterator

from perf.fleets.objects import Json, device_class, exactly, node, node_names, pool

DRIVER = "nic.example.com"
CLASS = "nic.example.com"
NICS_A_NODE = 8
GIGABITS = 100


def fleet(nodes: int) -> Iterator[Json]:
    """Nodes, the class of all cards, and a slice a node."""
    yield device_class(CLASS, f"device.driver == '{DRIVER}'")
    for name in node_names(nodes):
        yield node(name)
        devices = [_card(number) for number in range(NICS_A_NODE)]
        yield from pool(DRIVER, name, devices, reach={"nodeName": name})


def share(name: str, gigabits: str) -> Json:
    """A request for a share of one card."""
    return exactly(name, CLASS, f"device.attributes['{DRIVER}'].rdma", capacity={"bandwidth": gigabits})


def _card(number: int) -> Json:
    policy = {"default": "1G", "validRange": {"min": "1G", "max": f"{GIGABITS}G", "step": "1G"}}
    return {
        "name": f"nic-{number}",
        "attributes": {"rdma": {"bool": number % 2 == 0}, "port": {"int": number}},
        "capacity": {
            "bandwidth": {"value": f"{GIGABITS}G", "requestPolicy": policy},
            "queues": {"value": "64", "requestPolicy": {"default": "1", "validValues": ["1", "2", "4"]}},
        },
        "allowMultipleAllocations": True,
    }
