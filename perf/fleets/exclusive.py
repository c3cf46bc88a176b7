"""The fleet of `mig`, where the devices of every other GPU say in which schemes of partition they belong."""

from collections.abc import Iterator

from perf.fleets import mig
from perf.fleets.objects import Json, device_class, node, node_names
from reconciler.library.making import mig_gpus

SCHEMES: dict[int, dict[str, tuple[str, ...]]] = {
    1: dict.fromkeys(mig.PROFILES, ("mig",)),
    2: {
        **dict.fromkeys(mig.PROFILES, ("large",)),
        "1g.5gb": ("small",),
        "1g.5gb+me": ("small",),
        "1g.10gb": ("small",),
        "2g.10gb": ("small", "large"),
    },
}
"""Schemes -> profile -> its groups. With one, nothing is excluded that counters do not exclude already; with
two, a GPU is given out in small partitions or in large ones."""


def fleet(nodes: int, schemes: int) -> Iterator[Json]:
    """Nodes, the class of all partitions, and 208 devices a node, half of them with groups."""
    yield device_class(
        mig.CLASS, f"device.driver == '{mig.DRIVER}' && device.attributes['{mig.DRIVER}'].type == 'mig'"
    )
    for name in node_names(nodes):
        yield node(name)
        for made in mig_gpus(name):
            for device in made["spec"].get("devices", ()):
                _group(device, schemes)
            yield made


def _group(device: Json, schemes: int) -> None:
    attributes = device["attributes"]
    number = attributes["parentIndex" if "parentIndex" in attributes else "index"]["int"]
    if number % 2 == 0:
        profile = attributes.get("profile", {}).get("string")
        groups = SCHEMES[schemes][profile] if profile else ("whole",)
        device["consumesCounters"][0]["compatibilityGroups"] = list(groups)
