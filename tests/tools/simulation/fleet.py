"""A small fleet as JSON: whole devices, partitions that draw from counters, shared ones, distant ones."""

from collections.abc import Iterator
from random import Random
from typing import Any

from tests.tools import builders

Object = dict[str, Any]

DRA = "resource.k8s.io/v1"
GPU, PART, NIC, NET = "gpu.example.com", "part.example.com", "nic.example.com", "net.example.com"
FOREIGN = "foreign.example.com"
"""Its devices are given out by somebody else"""
OURS = frozenset({GPU, PART, NIC, NET})
NODES = {"n1": "a", "n2": "a", "n3": "b"}
"""Node -> its zone"""
PROFILES = {"full": 40, "half": 20, "small": 10}
"""Partition -> Gi of memory"""
NIC_GBIT = 10

CLASSES: dict[str, tuple[str, str | None]] = {
    "gpu": (GPU, None),
    "part": (PART, None),
    "part-full": (PART, "full"),
    "part-half": (PART, "half"),
    "part-small": (PART, "small"),
    "nic": (NIC, None),
    "net": (NET, None),
    "foreign": (FOREIGN, None),
}
"""Class -> driver and, if only some of its devices are meant, their profile"""


def device_class(name: str) -> Object:
    driver, profile = CLASSES[name]
    expression = f'device.driver == "{driver}"'
    if profile:
        expression += f' && device.attributes["{driver}"].profile == "{profile}"'
    return builders.device_class(name, expression)


def node(name: str, *, cordoned: bool = False) -> Object:
    labels = {"zone": NODES[name]}
    spec = {"unschedulable": True} if cordoned else {}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec}


def pools(random: Random) -> Iterator[tuple[str, str]]:
    """Driver and name of the pools that a fleet has."""
    nodes = random.sample(sorted(NODES), random.choice((1, 1, 2, 3)))
    drivers = random.sample([GPU, PART, NIC, FOREIGN], random.choice((1, 1, 2, 3)))
    for driver in dict.fromkeys([*drivers, *random.sample([GPU, PART], 1)]):
        yield from ((driver, name) for name in sorted(nodes))
    if random.random() < 0.5:
        yield NET, f"zone-{random.choice('ab')}"


def slices(driver: str, pool: str, generation: int, random: Random) -> list[Object]:
    """The slices of one generation of a pool. Generations may differ in what they publish."""
    contents: list[Object]
    match driver:
        case "gpu.example.com" | "foreign.example.com":
            names = [f"d{n}" for n in range(random.randint(1, 5))]
            groups = [names[:2], names[2:]] if len(names) > 2 and random.random() < 0.4 else [names]
            contents = [{"devices": [{"name": name} for name in group]} for group in groups]
        case "part.example.com":
            contents = _partitions(random)
        case "nic.example.com":
            gbit = random.choice((NIC_GBIT, NIC_GBIT, NIC_GBIT // 2))
            policy = {"default": "1G", "validRange": {"min": "1G", "step": "1G"}}
            capacity = {"bandwidth": {"value": f"{gbit}G", "requestPolicy": policy}}
            nic = {"name": "nic0", "allowMultipleAllocations": True, "capacity": capacity}
            contents = [{"devices": [nic]}]
        case _:
            contents = [{"devices": [{"name": f"e{n}"} for n in range(random.randint(1, 3))]}]
    target: Object = {"nodeName": pool}
    if driver == NET:
        expression = {"key": "zone", "operator": "In", "values": [pool.removeprefix("zone-")]}
        target = {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    published = {"name": pool, "generation": generation, "resourceSliceCount": len(contents)}
    return [
        {
            "apiVersion": DRA,
            "kind": "ResourceSlice",
            "metadata": {"name": f"{driver.partition('.')[0]}-{pool}-{generation}-{number}"},
            "spec": {"driver": driver, "pool": published, **target, **content},
        }
        for number, content in enumerate(contents)
    ]


def _partitions(random: Random) -> list[Object]:
    """One or two cards of 40 Gi, each whole, in halves or smaller: as many as fit, of which not all do."""
    cards = [f"g{n}" for n in range(random.choice((1, 1, 2)))]
    memory = random.choice((40, 40, 40, 30))
    devices = []
    for card in cards:
        for profile, count in (("full", 1), ("half", 2), ("small", random.choice((2, 4)))):
            for number in range(count):
                draw = (
                    PROFILES[profile] * random.choice((1, 1, 1, 1, 1, 2))
                    if profile == "small"
                    else (PROFILES[profile])
                )
                slots = {"full": 7, "half": 3, "small": 1}[profile]
                counters = {"memory": {"value": f"{draw}Gi"}, "slots": {"value": str(slots)}}
                devices.append({
                    "name": f"{card}-{profile}-{number}",
                    "attributes": {"profile": {"string": profile}},
                    "consumesCounters": [{"counterSet": card, "counters": counters}],
                })  # fmt: skip
    sets = [
        {"name": card, "counters": {"memory": {"value": f"{memory}Gi"}, "slots": {"value": "7"}}}
        for card in cards
    ]
    return [{"sharedCounters": sets}, {"devices": devices}]
