"""The state of one machine for display: devices, their holders, partitions. Not used by decisions."""

from collections.abc import Iterator

from msgspec import Struct

from reconciler.allocation.koordinator.fleet import Fleet
from reconciler.allocation.koordinator.view import node_free
from reconciler.api.koordinator.amounts import NOTHING, Shares, any_left
from reconciler.api.koordinator.annotations import NO_HINT
from reconciler.api.koordinator.names import GPU, TYPES
from reconciler.api.objects.meta import ObjectKey
from reconciler.state.koordinator.exclusion import excluded_minors
from reconciler.state.koordinator.holdings import Grant, Holdings
from reconciler.state.koordinator.machine import Machine

HELD, SHARED, ALLOCATABLE, BLOCKED = "held", "shared", "allocatable", "blocked"
STATES = (HELD, SHARED, ALLOCATABLE, BLOCKED)
"""held: allocated, nothing more is available. shared: allocated, more is available. allocatable: free.
blocked: not allocated, but unhealthy, without resources, or excluded by the exclusive use of a holder."""


class HeldShares(Struct, frozen=True):
    """The part of a device that one pod holds."""

    pod: ObjectKey
    shares: Shares
    vfs: tuple[str, ...]
    """Bus ids"""


class DeviceState(Struct, frozen=True):
    """One device."""

    kind: str
    minor: int
    id: str
    state: str
    healthy: bool
    numa: int | None
    pcie: str
    """The PCIe switch; empty if it is not known"""
    total: Shares
    """Empty for an unhealthy device"""
    free: Shares
    vfs: int
    vfs_free: int
    holders: tuple[HeldShares, ...]


class PartitionState(Struct, frozen=True):
    """GPUs that may be allocated together."""

    minors: tuple[int, ...]
    score: int
    bandwidth: int
    """-1 if it is not declared"""
    free: bool
    """Whether all its GPUs are healthy and no pod holds a part of them"""


class MachineState(Struct, frozen=True):
    """One machine, with its devices in the order of types and minors."""

    name: str
    devices: tuple[DeviceState, ...]
    partitions: tuple[PartitionState, ...]
    honors: bool
    """Whether GPUs are allocated only as partitions"""


def describe_machine(fleet: Fleet, name: str) -> MachineState:
    """The current state of a known machine."""
    machine, holdings = fleet.machines[name], fleet.holders(name)
    holders: dict[tuple[str, int], list[tuple[ObjectKey, Grant]]] = {}
    for pod, kind, grant in holdings.grants():
        holders.setdefault((kind, grant.minor), []).append((pod, grant))
    devices = tuple(_devices(machine, holdings, holders, upstream=fleet.rules.upstream))
    return MachineState(name, devices, tuple(_partitions(machine, devices)), machine.honors_partitions)


def _devices(
    machine: Machine,
    holdings: Holdings,
    holders: dict[tuple[str, int], list[tuple[ObjectKey, Grant]]],
    *,
    upstream: bool,
) -> Iterator[DeviceState]:
    for kind in TYPES:
        infos = machine.devices.get(kind, {})
        free = node_free(kind, machine, holdings, {})
        # The release has no exclusive use.
        closed = frozenset[int]() if upstream else excluded_minors(kind, NO_HINT, machine, holdings, ())
        for minor, info in sorted(infos.items()):
            mine = holders.get((kind, minor), [])
            usable = info.health and minor not in closed and any_left(free.get(minor, NOTHING))
            states = (SHARED, HELD) if mine else (ALLOCATABLE, BLOCKED)
            functions = [vf.bus_id for group in info.vf_groups for vf in group.vfs]
            yield DeviceState(
                kind=kind,
                minor=minor,
                id=info.id,
                state=states[0] if usable else states[1],
                healthy=info.health,
                numa=machine.numa(kind, minor),
                pcie=machine.pcie(kind, minor) or "",
                total=machine.capacity[kind][minor],
                free=free.get(minor, NOTHING),
                vfs=len(functions),
                vfs_free=sum(not holdings.vf_taken(kind, minor, bus_id) for bus_id in functions),
                holders=tuple(
                    HeldShares(pod, grant.shares, tuple([vf.bus_id for vf in grant.vfs]))
                    for pod, grant in mine
                ),
            )


def _partitions(machine: Machine, devices: tuple[DeviceState, ...]) -> Iterator[PartitionState]:
    table = machine.partitions
    if table is None:
        return
    whole = {device.minor for device in devices if device.kind == GPU and device.state == ALLOCATABLE}
    columns = zip(table.minors, table.scores.tolist(), table.bandwidth.tolist(), strict=True)
    for minors, score, bandwidth in columns:
        yield PartitionState(minors, score, bandwidth, whole.issuperset(minors))
