"""The first revision of KEP-4815: the objects of its text, and its rules word for word, with loops."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from reconciler.api.objects.quantity import Quantity
from tests.tools.checkout import SHARED

TEXT = SHARED / "spec" / "seeds" / "000_b437b25112330356.txt"

Object = dict[str, Any]


def blocks() -> list[Any]:
    """Every block of YAML in the text that can be read."""
    found = re.findall(r"^```yaml\n(.*?)^```", TEXT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [yaml.safe_load(block) for block in found if "..." not in block]


def two_gpus() -> Object:
    """The two-GPU DGX A100, all of it as written, in a slice of one node."""
    (content,) = [b for b in blocks() if isinstance(b, dict) and len(b.get("devices", ())) > 50]
    return first_revision(**content)


def four_partitions() -> Object:
    """The claim of the text, as written."""
    (claim,) = [
        block for block in blocks() if isinstance(block, dict) and block.get("kind") == "ResourceClaim"
    ]
    return claim


def first_revision(**content: Any) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": "n",
            "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
            **content,
        },
    }


@dataclass(frozen=True)
class Partition:
    """A device as the tree knows it. `takes` are its own amounts; sources as listed."""

    sources: tuple[str, ...]
    takes: Mapping[str, int]


def partitions(spec: Object) -> dict[str, Partition]:
    """The devices of a slice of this shape, mixins applied by hand."""
    mixins = {mixin["name"]: mixin["composite"] for mixin in spec.get("deviceMixins", ())}
    found = {}
    for device in spec["devices"]:
        body = device["composite"]
        takes: dict[str, int] = {}
        for part in (*(mixins[ref["name"]] for ref in body.get("includes", ())), body):
            for key, amount in part.get("capacity", {}).items():
                takes[key] = Quantity.parse(str(amount["quantity"])).nanos
        sources = tuple(ref["name"] for ref in body.get("consumesCapacityFrom", ()))
        found[device["name"]] = Partition(sources, takes)
    return found


class Walk:
    """A literal walk of the tree: who is held, and what is left of every source."""

    def __init__(self, devices: Mapping[str, Partition]) -> None:
        self.devices = devices
        self.held: list[str] = []

    def sources_of(self, name: str) -> list[str]:
        """Everything above, each once."""
        found: list[str] = []
        for source in self.devices[name].sources:
            if source != name:
                found += [source, *self.sources_of(source)]
        return list(dict.fromkeys(found))

    def charged(self, name: str, capacity: str) -> list[str]:
        """The sources that give a capacity to a device: the last that has it, and so on upwards."""
        having = [s for s in self.devices[name].sources if capacity in self.devices[s].takes]
        others = [source for source in self.devices[name].sources if source != name]
        if not others or (having and having[-1] == name):
            return []
        if not having:
            return [others[-1]]
        return [having[-1], *self.charged(having[-1], capacity)]

    def left(self, source: str, capacity: str) -> int:
        total = self.devices[source].takes.get(capacity, 0)
        for name in self.held:
            if source in self.charged(name, capacity):
                total -= self.devices[name].takes.get(capacity, 0)
        return total

    def possible(self, name: str) -> bool:
        """CCF-1, line by line."""
        if name in self.held:
            return False
        if any(source in self.held for source in self.sources_of(name)):
            return False
        if any(name in self.sources_of(held) for held in self.held):
            return False
        return all(
            self.left(source, capacity) >= amount
            for capacity, amount in self.devices[name].takes.items()
            if amount
            for source in self.charged(name, capacity)
        )


def composite(name: str, sources: list[str] | None = None, **amounts: int) -> Object:
    """A device; amounts with `_` for `-`."""
    body: Object = {
        "attributes": {"name": {"string": name}},
        "capacity": {key.replace("_", "-"): {"quantity": str(value)} for key, value in amounts.items()},
    }
    if sources is not None:
        body["consumesCapacityFrom"] = [{"name": source} for source in sources]
    return {"name": name, "composite": body}
