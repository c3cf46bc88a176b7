"""The topology of GPUs: machine, NUMA nodes, PCIe switches (KOO-16)."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import IntEnum

from msgspec import Struct

from reconciler.api.koordinator.annotations import SCOPES
from reconciler.api.koordinator.device import DeviceInfo, Topology


class Level(IntEnum):
    """The level of a scope. No scope has level DEVICE, so a required level DEVICE is never met."""

    NONE = 0
    NODE = 1
    NUMA = 2
    PCIE = 3
    DEVICE = 4


REQUIRED = dict(zip(SCOPES, (Level.DEVICE, Level.PCIE, Level.NUMA, Level.NODE), strict=True))
"""The values of `requiredTopologyScope`; others require nothing."""


class Scope(Struct, frozen=True):
    """A part of the machine, and its parts."""

    level: Level
    name: str
    minors: tuple[int, ...]
    children: tuple["Scope", ...] = ()


class Serving(Struct, frozen=True):
    """A scope with enough GPUs, and these GPUs in the order of allocation."""

    scope: Scope
    minors: tuple[int, ...]


def gpu_tree(gpus: Mapping[int, DeviceInfo]) -> Scope | None:
    """The tree; None if a GPU has no topology."""
    places: dict[int, Topology] = {m: gpu.topology for m, gpu in gpus.items() if gpu.topology is not None}
    if not gpus or len(places) < len(gpus):
        return None
    numa_nodes: dict[int, dict[str, list[int]]] = {}
    for minor in sorted(places):
        place = places[minor]
        numa_nodes.setdefault(place.node_id, {}).setdefault(place.pcie_id, []).append(minor)
    return Scope(
        Level.NODE,
        "",
        tuple(sorted(places)),
        tuple(
            Scope(
                Level.NUMA,
                str(numa),
                tuple(sorted(minor for minors in switches.values() for minor in minors)),
                tuple(Scope(Level.PCIE, pcie, tuple(switches[pcie])) for pcie in sorted(switches)),
            )
            for numa, switches in sorted(numa_nodes.items())
        ),
    )


def serving(
    tree: Scope,
    count: int,
    usable: Collection[int],
    used: Collection[int],
    *,
    required: Level = Level.NONE,
    score: Callable[[int], int] | None = None,
) -> list[Serving]:
    """The scopes with `count` usable GPUs: the narrowest first, then the busiest, then by best score.

    A scope is busier for every scope on its path that contains a used GPU. A score is for parts of single
    GPUs; it also orders the devices within a scope.
    """
    found: list[tuple[tuple[int, int, int], Serving]] = []
    for path in _paths(tree, ()):
        scope = path[-1]
        minors = [minor for minor in scope.minors if minor in usable]
        if scope.level < required or not minors or len(minors) < count:
            continue
        best = 0
        if score is not None:
            minors.sort(key=lambda minor: (-score(minor), minor))
            best = score(minors[0])
        occupied = sum(any(minor in used for minor in part.minors) for part in path)
        found.append(((-scope.level, -occupied, -best), Serving(scope, tuple(minors))))
    found.sort(key=lambda entry: entry[0])
    return [entry for _, entry in found]


def _paths(scope: Scope, above: Sequence[Scope]) -> Iterator[tuple[Scope, ...]]:
    path = (*above, scope)
    yield path
    for child in scope.children:
        yield from _paths(child, path)
