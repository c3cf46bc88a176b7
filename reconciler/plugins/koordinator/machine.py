"""The devices of one machine, from its Device object, and the topology of its GPUs (KOO-16). Immutable."""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from reconciler.plugins.koordinator import vocabulary as koord
from reconciler.plugins.koordinator.annotations import SCOPES
from reconciler.plugins.koordinator.partitions import PartitionTable, machine_partitions
from reconciler.plugins.koordinator.vocabulary import GPU, NOTHING, Device, DeviceInfo, Shares, shares_of


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
    places: dict[int, koord.Topology] = {
        m: gpu.topology for m, gpu in gpus.items() if gpu.topology is not None
    }
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


class Machine(Struct, frozen=True, dict=True):
    """The devices of a node by type and minor, with their topology."""

    name: str
    devices: Mapping[str, Mapping[int, DeviceInfo]]
    capacity: Mapping[str, Mapping[int, Shares]]
    """Empty shares for unhealthy devices."""
    node_labels: Mapping[str, str]
    partitions: PartitionTable | None
    honors_partitions: bool
    well_planned: bool
    """Devices of secondary types are chosen only in the last phase."""
    unknown_policy: str = ""
    """A value of the label for the partition policy that nobody knows; then no GPU is allocated."""
    notes: tuple[str, ...] = ()
    """Invalid parts of the object, which count as absent."""

    @cached_property
    def tree(self) -> Scope | None:
        """The topology of the GPUs; None if it is not known for all."""
        return gpu_tree(self.devices.get(GPU, {}))

    @cached_property
    def recovered(self) -> "Machine":
        """The machine with all its devices healthy."""
        every = (info for minors in self.devices.values() for info in minors.values())
        return self if all(info.health for info in every) else self.with_health(healthy=True)

    def with_health(self, *, healthy: bool) -> "Machine":
        """The machine with all its devices healthy, or none."""
        devices = {
            kind: {minor: info.model_copy(update={"health": healthy}) for minor, info in minors.items()}
            for kind, minors in self.devices.items()
        }
        capacity = {
            kind: {
                minor: shares_of(self.name, info.resources) if healthy else NOTHING
                for minor, info in minors.items()
            }
            for kind, minors in devices.items()
        }
        return replace(self, devices=devices, capacity=capacity)

    def likeness(self) -> Hashable:
        """Equal for machines that no decision tells apart while the same is held of them.

        Has all that a decision reads: neither the name of the machine nor the ids of its devices.
        """
        return (
            tuple((kind, *self._parts(kind)) for kind in self.devices),
            self.vendor,
            self.model,
            self.isolation,
            self.partitions and self.partitions.likeness(),
            self.honors_partitions,
            self.unknown_policy,
            self.well_planned,
        )

    def _parts(self, kind: str) -> Iterator[Hashable]:
        for minor, info in self.devices[kind].items():
            where = info.topology and (info.topology.pcie_id, info.topology.node_id)
            vfs = tuple(
                (*group.labels.items(), *((vf.minor, vf.bus_id) for vf in group.vfs))
                for group in info.vf_groups
            )
            capacity = tuple(self.capacity[kind][minor].items())
            yield minor, info.health, where, capacity, tuple(info.labels.items()), vfs

    @property
    def isolation(self) -> str:
        """The provider that isolates parts of GPUs from one another; "" for none."""
        return self.node_labels.get(koord.ISOLATION_PROVIDER, "")

    @property
    def vendor(self) -> str:
        return self.node_labels.get(koord.GPU_VENDOR, "")

    @property
    def model(self) -> str:
        return self.node_labels.get(koord.GPU_MODEL, "")

    def pcie(self, kind: str, minor: int) -> str | None:
        """The PCIe switch of a device; None if it is not known."""
        device = self.devices.get(kind, {}).get(minor)
        return device.topology.pcie_id if device is not None and device.topology is not None else None

    def numa(self, kind: str, minor: int) -> int | None:
        """The NUMA node of a device; None if it is not known."""
        device = self.devices.get(kind, {}).get(minor)
        if device is None or device.topology is None or device.topology.node_id < 0:
            return None
        return device.topology.node_id


def machine_of(
    device: Device, node_labels: Mapping[str, str], semantics: koord.Semantics = koord.Semantics.PROPOSAL
) -> Machine:
    """A machine from its Device object and its Node's labels. Raises Malformed for amounts out of range."""
    subject = f"Device {device.metadata.name}"
    devices: dict[str, dict[int, DeviceInfo]] = {}
    capacity: dict[str, dict[int, Shares]] = {}
    for info in device.spec.devices:
        devices.setdefault(info.type, {})[info.minor] = info
        shares = shares_of(subject, info.resources)
        capacity.setdefault(info.type, {})[info.minor] = shares if info.health else NOTHING
    partitions = machine_partitions(device, node_labels, semantics)
    return Machine(
        name=device.metadata.name,
        devices=devices,
        capacity=capacity,
        node_labels=node_labels,
        partitions=partitions.table,
        honors_partitions=partitions.honored,
        well_planned=device.metadata.labels.get(koord.WELL_PLANNED) == "true",
        unknown_policy=partitions.unknown_policy,
        notes=partitions.notes,
    )
