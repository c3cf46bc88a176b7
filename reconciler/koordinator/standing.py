"""How one machine stands, for people who look at it: devices, who holds them, partitions. Decides nothing."""

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.koordinator.annotations import NO_HINT
from reconciler.koordinator.exclusion import barred
from reconciler.koordinator.fleet import Fleet
from reconciler.koordinator.holdings import Grant, Holdings
from reconciler.koordinator.machine import Machine
from reconciler.koordinator.names import GPU, TYPES
from reconciler.koordinator.shares import NOTHING, Shares, any_left
from reconciler.koordinator.view import node_free
from reconciler.objects.meta import ObjectKey

HELD, SHARED, ALLOCATABLE, BLOCKED = "held", "shared", "allocatable", "blocked"
STATES = (HELD, SHARED, ALLOCATABLE, BLOCKED)
"""Held: nothing more is given of it. Shared: held, and more of it could be given. Blocked: nobody has it, and
it is sick, says of no resource, or a holder wants to be alone beside it."""


@dataclass(frozen=True, slots=True)
class Held:
    """What one pod has of a device."""

    pod: ObjectKey
    shares: Shares
    vfs: tuple[str, ...]
    """Bus ids"""


@dataclass(frozen=True, slots=True)
class DeviceStanding:
    """One device."""

    kind: str
    minor: int
    id: str
    state: str
    healthy: bool
    numa: int | None
    pcie: str
    """The switch; empty where it is not known"""
    total: Shares
    """Nothing of a sick device"""
    free: Shares
    vfs: int
    vfs_free: int
    holders: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class PartitionStanding:
    """GPUs that may be given away together."""

    minors: tuple[int, ...]
    score: int
    bandwidth: int
    """-1 where none is declared"""
    free: bool
    """Whether it is healthy as a whole, and nobody has anything of it"""


@dataclass(frozen=True, slots=True)
class MachineStanding:
    """One machine, its devices in the order of types and minors."""

    name: str
    devices: tuple[DeviceStanding, ...]
    partitions: tuple[PartitionStanding, ...]
    honors: bool
    """Whether GPUs are given as partitions alone"""


def standing(fleet: Fleet, name: str) -> MachineStanding:
    """A machine that is known, as it is now."""
    machine, holdings = fleet.machines[name], fleet.holders(name)
    holders: dict[tuple[str, int], list[tuple[ObjectKey, Grant]]] = {}
    for pod, kind, grant in holdings.grants():
        holders.setdefault((kind, grant.minor), []).append((pod, grant))
    devices = tuple(_devices(machine, holdings, holders, upstream=fleet.rules.upstream))
    return MachineStanding(name, devices, tuple(_partitions(machine, devices)), machine.honors_partitions)


def _devices(
    machine: Machine,
    holdings: Holdings,
    holders: dict[tuple[str, int], list[tuple[ObjectKey, Grant]]],
    *,
    upstream: bool,
) -> Iterator[DeviceStanding]:
    for kind in TYPES:
        infos = machine.devices.get(kind, {})
        free = node_free(kind, machine, holdings, {})
        # The release lets nobody be alone.
        closed = frozenset[int]() if upstream else barred(kind, NO_HINT, machine, holdings, ())
        for minor, info in sorted(infos.items()):
            mine = holders.get((kind, minor), [])
            usable = info.health and minor not in closed and any_left(free.get(minor, NOTHING))
            states = (SHARED, HELD) if mine else (ALLOCATABLE, BLOCKED)
            functions = [vf.bus_id for group in info.vf_groups for vf in group.vfs]
            yield DeviceStanding(
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
                    Held(pod, grant.shares, tuple([vf.bus_id for vf in grant.vfs])) for pod, grant in mine
                ),
            )


def _partitions(machine: Machine, devices: tuple[DeviceStanding, ...]) -> Iterator[PartitionStanding]:
    table = machine.partitions
    if table is None:
        return
    whole = {device.minor for device in devices if device.kind == GPU and device.state == ALLOCATABLE}
    columns = zip(table.minors, table.scores.tolist(), table.bandwidth.tolist(), strict=True)
    for minors, score, bandwidth in columns:
        yield PartitionStanding(minors, score, bandwidth, whole.issuperset(minors))
