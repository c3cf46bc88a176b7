"""Small machines as plain values, from which both the objects and the exhaustive twins are made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.tools import builders
from tests.tools.builders import Object, counter_slice, device, node, resource_slice

DRIVER = "d"
Draw = Mapping[str, int]


@dataclass(frozen=True)
class Part:
    """A device of a machine."""

    name: str
    profile: str
    draw: Draw


@dataclass(frozen=True)
class Machine:
    """The devices of one node, and the counters that they draw from; a device without a draw is whole."""

    parts: tuple[Part, ...]
    counters: tuple[tuple[str, int], ...] = ()

    def room_for(self, names: Sequence[str]) -> bool:
        """Whether devices can be held together."""
        left = dict(self.counters)
        by_name = {part.name: part for part in self.parts}
        for name in names:
            for counter, amount in by_name[name].draw.items():
                left[counter] -= amount
        return len(set(names)) == len(names) and all(rest >= 0 for rest in left.values())


def wholes(count: int) -> Machine:
    """A machine with some whole devices."""
    return Machine(tuple(Part(f"g{at}", "gpu", {}) for at in range(count)))


def halves() -> Machine:
    """A device as a whole, as two halves in either of two places each, and as four quarters."""
    full = {f"s{at}": 1 for at in range(4)}
    parts = [Part("whole", "whole", full)]
    parts += [Part(f"half-{at}", "half", {f"s{at}": 1, f"s{at + 1}": 1}) for at in range(3)]
    parts += [Part(f"quarter-{at}", "quarter", {f"s{at}": 1}) for at in range(4)]
    return Machine(tuple(parts), tuple(full.items()))


def objects_of(name: str, machine: Machine) -> list[Object]:
    """The node and the slices of a machine."""
    here: Object = {"nodeName": name, "pool": name, "slices": 1 + bool(machine.counters)}
    content = [
        device(part.name, {"profile": part.profile}, draws={"set": part.draw} if part.draw else None)
        for part in machine.parts
    ]
    made = [node(name), resource_slice(f"{name}-d", content, **here)]
    if machine.counters:
        made.append(counter_slice(f"{name}-c", {"set": dict(machine.counters)}, **here))
    return made


def device_class(name: str = "any") -> Object:
    """The class of all devices of all machines."""
    return builders.device_class(name, f"device.driver == '{DRIVER}'")


def spec_of(profile: str, count: int) -> Object:
    """The spec of a claim of some devices of one profile."""
    selector = {"cel": {"expression": f"device.attributes['{DRIVER}'].profile == '{profile}'"}}
    exactly = {"deviceClassName": "any", "count": count, "selectors": [selector]}
    return {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}


def claim_of(name: str, profile: str, node: str, *devices: str) -> Object:
    """An allocated claim of one pod of the same name."""
    results = [{"request": "r", "driver": DRIVER, "pool": node, "device": one} for one in devices]
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    made = builders.claim(name)
    made["metadata"]["uid"] = name
    return {
        **made,
        "spec": spec_of(profile, len(devices)),
        "status": {
            "allocation": {
                "devices": {"results": results},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
            },
            "reservedFor": [{"resource": "pods", "name": name, "uid": f"uid-{name}"}],
        },
    }


def pod_of(name: str, node: str, *, controller: str = "ReplicaSet") -> Object:
    """A running pod that uses the claim of its name."""
    owner = {"apiVersion": "apps/v1", "kind": controller, "name": "r", "uid": "r", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "ownerReferences": [owner] if controller else [],
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "image": "example.com/main"}],
            "resourceClaims": [{"name": "c", "resourceClaimName": name}],
        },
        "status": {"phase": "Running"},
    }
