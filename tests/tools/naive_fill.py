"""The choice of a node by `fgd` and `expected-fill` again, node by node, on a small fleet of shared GPUs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tests.tools import naive_fragmentation as naive
from tests.tools.builders import DRIVER, Object, claim, device, node, request, resource_slice, selectors


class Want(NamedTuple):
    """What a pod asks for."""

    cores: int
    units: int
    gpus: int
    models: frozenset[str]

    def claim(self, name: str) -> Object:
        """Its claim, if it asks for GPUs."""
        models = " || ".join(
            f'device.attributes["{DRIVER}"].model == "{model}"' for model in sorted(self.models)
        )
        wanted = request("r", self.gpus, capacity={"milli": str(self.units)}, selectors=selectors(models))
        return claim(name, wanted)


@dataclass(slots=True)
class Machine:
    """A node."""

    model: str
    cores: int
    free: list[int]


@dataclass(frozen=True, slots=True)
class Twin:
    """The machines by name, and the demand: pairs of want and weight, no two weights alike."""

    machines: dict[str, Machine]
    demand: Sequence[tuple[Want, int]]

    def objects(self) -> list[Object]:
        """Nodes and slices."""
        made = []
        for name, one in self.machines.items():
            devices = [
                device(f"g{at}", {"model": one.model}, {"milli": "1000"}, allowMultipleAllocations=True)
                for at in range(len(one.free))
            ]
            made += [node(name), resource_slice(name, devices, pool=name, nodeName=name)]
        return made

    def fgd(self, want: Want) -> tuple[str, int] | None:
        """(node, shared GPU or -1) with most points, then the first by name."""
        found = self._points(want)
        if not found:
            return None
        best = max(found, key=lambda name: found[name][0])  # the first of equal ones, by name
        return best, found[best][1]

    def expected_fill(
        self, want: Want, candidates: int, drawn: tuple[int, int], price: int
    ) -> tuple[str, int] | None:
        """The node of the first distinct states where the drawn demand loses least."""
        found = self._points(want)
        pressure = {name: self.pressure(name) if want.gpus else 0 for name in found}
        ordered = sorted(found, key=lambda name: (pressure[name] - found[name][0], name))
        first: dict[tuple[object, ...], str] = {}
        for name in ordered:
            first.setdefault(self._state(name), name)
        distinct = list(first.values())[:candidates]
        if not distinct:
            return None
        sequences = self._drawn(drawn)
        losses = []
        for name in distinct:
            one, device = self.machines[name], found[name][1]
            left = naive.after(naive.Kind(want.cores, want.units, want.gpus, frozenset()), one.free, device)
            number = sorted(self.machines).index(name)
            before = naive.filled(sequences, one.cores, number, one.free)
            loss = before - naive.filled(sequences, one.cores - want.cores, number, left)
            losses.append(loss * (price * 1000 + pressure[name]) if want.gpus else loss)
        chosen = distinct[losses.index(min(losses))]
        return chosen, found[chosen][1]

    def place(self, want: Want, name: str, device: int) -> None:
        """Take what the want asks for."""
        one = self.machines[name]
        one.free = naive.after(naive.Kind(0, want.units, want.gpus, frozenset()), one.free, device)
        one.cores -= want.cores

    def fits(self, want: Want, name: str) -> bool:
        """Whether the node has what the want asks for."""
        one, anywhere = self.machines[name], frozenset([0])
        kind = naive.Kind(want.cores, want.units, want.gpus, anywhere)
        return (not want.gpus or one.model in want.models) and naive.fits(kind, one.cores, 0, one.free)

    def pressure(self, name: str) -> int:
        """Thousandths of the GPUs of the node's model that are asked for by what cannot go everywhere."""
        sizes = {one: len(machine.free) for one, machine in self.machines.items()}
        asked = sum(weight * want.gpus for want, weight in self.demand)
        total = 0
        for want, weight in self.demand:
            serving = [one for one in self.machines if not want.gpus or self._serves(want, one)]
            own = sum(sizes[one] for one in serving)
            if name in serving and 0 < own < sum(sizes.values()):
                total += 1000 * weight * want.gpus * sum(sizes.values()) * 1024 // (asked * own)
        return (total + 512) // 1024

    def _points(self, want: Want) -> dict[str, tuple[int, int]]:
        """(points, shared GPU or -1) of the nodes that the want fits."""
        kinds = [self._kind(one, weight) for one, weight in self._typical()]
        nodes = frozenset(range(len(self.machines)))
        need = naive.Kind(want.cores, want.units, want.gpus, nodes)
        found = {}
        for number, name in enumerate(sorted(self.machines)):
            one = self.machines[name]
            if self.fits(want, name):
                points = naive.points(kinds, need, one.cores, number, one.free)
                assert points is not None
                found[name] = points
        return found

    def _typical(self) -> list[tuple[Want, int]]:
        total, kept, seen = sum(weight for _, weight in self.demand), [], 0
        for want, weight in sorted(self.demand, key=lambda one: -one[1]):
            kept.append((want, weight))
            seen += weight
            if seen * 100 >= 95 * total:
                break
        return kept

    def _drawn(self, shape: tuple[int, int]) -> list[list[naive.Kind]]:
        asking = [(want, weight) for want, weight in self.demand if want.gpus]
        weights = np.array([weight for _, weight in asking])
        drawn = np.random.default_rng(0).choice(len(asking), shape, p=weights / weights.sum())
        return [[self._kind(*asking[at]) for at in row] for row in drawn.tolist()]

    def _kind(self, want: Want, weight: int) -> naive.Kind:
        nodes = sorted(self.machines)
        models = {at for at, name in enumerate(nodes) if not want.gpus or self._serves(want, name)}
        return naive.Kind(want.cores, want.units, want.gpus, frozenset(models), weight)

    def _serves(self, want: Want, name: str) -> bool:
        return bool(self.machines[name].free) and self.machines[name].model in want.models

    def _state(self, name: str) -> tuple[object, ...]:
        one = self.machines[name]
        serving = tuple(not want.gpus or self._serves(want, name) for want, _ in self.demand)
        # A device of which nothing is left is like none.
        return one.cores, serving, tuple(sorted(free for free in one.free if free))
