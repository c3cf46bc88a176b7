"""The policies that judge devices again, device by device, on partitions of a small fleet."""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.tools.builders import Object, counter_slice, device, held, hold, node, resource_slice
from tests.tools.scenario import Given, asking, machine, sized
from tests.tools.small_fleet import DRIVER, claim, device_class, devices

PARTS = {
    "whole": (0, 4), "left": (0, 2), "right": (2, 2), "q0": (0, 1),
    "q1": (1, 1), "q2": (2, 1), "q3": (3, 1),
}  # fmt: skip
"""Device -> (first slot, slots) of a GPU with four slots"""
SIZES = {4: "whole", 2: "half", 1: "quarter"}


@dataclass(frozen=True)
class Parts:
    """GPUs of four slots: node -> GPU -> held parts that do not overlap."""

    held: Mapping[str, tuple[frozenset[str], ...]]

    def objects(self) -> list[Object]:
        """Nodes, slices, and one claim that holds the parts."""
        made, holds = [], []
        for name, gpus in self.held.items():
            sets = {f"g{gpu}": {f"s{slot}": 1 for slot in range(4)} for gpu in range(len(gpus))}
            devices = [
                device(
                    f"g{gpu}-{part}",
                    {"size": SIZES[slots], "gpu": gpu},
                    draws={f"g{gpu}": {f"s{slot}": 1 for slot in range(first, first + slots)}},
                )
                for gpu in range(len(gpus))
                for part, (first, slots) in PARTS.items()
            ]
            common: Object = {"pool": name, "slices": 2, "nodeName": name}
            made += [node(name), counter_slice(f"{name}-c", sets, **common)]
            made.append(resource_slice(f"{name}-d", devices, **common))
            holds += [
                hold(f"g{gpu}-{part}", pool=name) for gpu, parts in enumerate(gpus) for part in sorted(parts)
            ]
        return [*made, held("others", *holds)] if holds else made

    def free_slots(self, name: str, gpu: int) -> set[int]:
        taken = {slot for part in self.held[name][gpu] for slot in slots_of(part)}
        return set(range(4)) - taken

    def open_parts(self, name: str, gpu: int, without: str | None = None) -> list[str]:
        """Parts that fit, after one more is taken."""
        free = self.free_slots(name, gpu) - (slots_of(without) if without else set())
        return [part for part in PARTS if slots_of(part) <= free]

    def candidates(self, size: str) -> list[tuple[str, int, str]]:
        """(node, GPU, part) of all parts of a size that fit, in first-fit order."""
        return [
            (name, gpu, part)
            for name in sorted(self.held)
            for gpu in range(len(self.held[name]))
            for part in self.open_parts(name, gpu)
            if SIZES[PARTS[part][1]] == size
        ]


def slots_of(part: str) -> set[int]:
    first, count = PARTS[part]
    return set(range(first, first + count))


def best_fit(parts: Parts, size: str) -> tuple[str, int, str]:
    """The fullest GPU, then the node with the fewest parts of that size."""
    return min(parts.candidates(size), key=lambda one: _left(parts, size, one))


def spread(parts: Parts, size: str) -> tuple[str, int, str]:
    """Its opposite."""
    return min(parts.candidates(size), key=lambda one: tuple(-left for left in _left(parts, size, one)))


def _left(parts: Parts, size: str, candidate: tuple[str, int, str]) -> tuple[int, int]:
    name, gpu, _ = candidate
    on_node = sum(other[0] == name for other in parts.candidates(size))
    return len(parts.free_slots(name, gpu)), on_node


def least_loss(parts: Parts, size: str, weights: Mapping[str, int]) -> tuple[str, int, str]:
    """The part that closes least by weight; then the fuller GPU, then first-fit order."""

    def loss(candidate: tuple[str, int, str]) -> tuple[int, int]:
        name, gpu, part = candidate
        closed = set(parts.open_parts(name, gpu)) - set(parts.open_parts(name, gpu, part))
        weight = sum(weights[SIZES[PARTS[one][1]]] for one in closed)
        return weight, len(parts.free_slots(name, gpu))

    return min(parts.candidates(size), key=loss)


# -- Manifests that a placement policy decides otherwise than first fit.


NIC = "nic.example.com"


def fleet(driver: str = DRIVER, name: str = "gpu") -> list[Object]:
    """Two free devices on node a, one on node b."""
    return [
        device_class(name, driver),
        devices("a", "d0", "d1", driver=driver),
        devices("b", "d0", driver=driver),
    ]


A, B = (sized(machine(name), cpu="4") for name in "ab")
GPUS = [A, B, *fleet()]
BOTH = [*GPUS, *fleet(NIC, "nic")]

POLICY_SCENARIOS = {
    "best fit leaves the node with more devices": Given(*GPUS, claim("c")).then(
        {"claim c": "b: d0"}, policy=("best-fit",)
    ),
    "spread takes the node with more devices": Given(*GPUS, claim("c1"), claim("c2")).then(
        {"claim c1": "a: d0", "claim c2": "a: d1"}, policy=("spread",)
    ),
    "a policy of one driver leaves first fit to others": Given(
        *BOTH, claim("c"), claim("n", device_class="nic")
    ).then({"claim c": "b: d0", "claim n": "a: d0"}, policy=(f"{DRIVER}=best-fit",)),
    "a policy of a class counts more than that of its driver": Given(
        *BOTH, claim("c"), claim("n", device_class="nic")
    ).then({"claim c": "a: d0", "claim n": "b: d0"}, policy=("best-fit", "class:gpu=first-fit")),
    "the first request with a policy chooses the node": Given(
        *BOTH, claim("n", device_class="nic"), claim("c"), asking("p", "n", "c")
    ).then({"pod p": "b: d0 d0"}, policy=(f"{DRIVER}=best-fit",)),
    "expected fill without a demand takes the first node with room": Given(
        *GPUS, claim("c"), asking("p", "c", cpu="3")
    ).then({"pod p": "a: d0"}, policy=("expected-fill",)),
    "a policy never refuses what first fit allocates": Given(*GPUS, claim("c", 2)).then(
        {"claim c": "a: d0 d1"}, policy=("best-fit",)
    ),
}
