"""The devices of one machine, from its Device object: indexed and immutable."""

from collections.abc import Hashable, Iterator, Mapping
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from reconciler.api.koordinator.amounts import NOTHING, Shares, shares_of
from reconciler.api.koordinator.device import Device, DeviceInfo
from reconciler.api.koordinator.names import GPU, GPU_MODEL, GPU_VENDOR, ISOLATION_PROVIDER, WELL_PLANNED
from reconciler.state.koordinator.partitions import PartitionTable, machine_partitions
from reconciler.state.koordinator.rules import Semantics
from reconciler.state.koordinator.tree import Scope, gpu_tree


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
    notes: tuple[str, ...] = ()
    """Invalid parts of the object, which count as absent."""

    @cached_property
    def tree(self) -> Scope | None:
        """The topology of the GPUs; None if it is not known for all."""
        return gpu_tree(self.devices.get(GPU, {}))

    @cached_property
    def recovered(self) -> "Machine":
        """The machine with all its devices healthy."""
        if all(info.health for minors in self.devices.values() for info in minors.values()):
            return self
        devices = {
            kind: {minor: info.model_copy(update={"health": True}) for minor, info in minors.items()}
            for kind, minors in self.devices.items()
        }
        capacity = {
            kind: {minor: shares_of(self.name, info.resources) for minor, info in minors.items()}
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
        return self.node_labels.get(ISOLATION_PROVIDER, "")

    @property
    def vendor(self) -> str:
        return self.node_labels.get(GPU_VENDOR, "")

    @property
    def model(self) -> str:
        return self.node_labels.get(GPU_MODEL, "")

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
    device: Device, node_labels: Mapping[str, str], semantics: Semantics = Semantics.PROPOSAL
) -> Machine:
    """A machine from its Device object and its Node's labels. Raises Malformed for amounts out of range."""
    subject = f"Device {device.metadata.name}"
    devices: dict[str, dict[int, DeviceInfo]] = {}
    capacity: dict[str, dict[int, Shares]] = {}
    for info in device.spec.devices:
        devices.setdefault(info.type, {})[info.minor] = info
        shares = shares_of(subject, info.resources)
        capacity.setdefault(info.type, {})[info.minor] = shares if info.health else NOTHING
    table, honors, notes = machine_partitions(device, node_labels, semantics)
    return Machine(
        name=device.metadata.name,
        devices=devices,
        capacity=capacity,
        node_labels=node_labels,
        partitions=table,
        honors_partitions=honors,
        well_planned=device.metadata.labels.get(WELL_PLANNED) == "true",
        notes=notes,
    )
