"""The state of machines for display: devices, their holders, partitions, and counts by type and machine.

Not used by decisions.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from msgspec import Struct

from kernels.types import Codes, Rows
from reconciler.api.objects.changes import Change
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.plugins.koordinator.annotations import NO_HINT
from reconciler.plugins.koordinator.choice import node_free
from reconciler.plugins.koordinator.columns import RESOURCES, Columns
from reconciler.plugins.koordinator.fleet import Fleet
from reconciler.plugins.koordinator.holdings import Grant, Holdings, excluded_minors, exclusive_use
from reconciler.plugins.koordinator.machine import Machine
from reconciler.plugins.koordinator.pods import KoordinatorState
from reconciler.plugins.koordinator.vocabulary import GPU, NOTHING, TYPES, Rules, Shares, any_left, printed
from reconciler.plugins.plugin import Shown, Usage, UsageLine
from reconciler.state.trial import load

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


class Tally(Struct, frozen=True):
    """Counts of the devices of one type, for one machine or all."""

    node: str
    """Empty for all machines"""
    kind: str
    states: tuple[int, ...]
    """Number of devices in each of STATES"""
    amounts: tuple[tuple[str, float, float], ...]
    """Resource, total of healthy devices, and free amount. Floats: the sums are only for display"""
    functions: int
    """Virtual functions"""
    functions_free: int

    @property
    def devices(self) -> int:
        """All devices."""
        return sum(self.states)


Series = list[tuple[tuple[str, ...], float]]
"""Labels and value"""


def driver(kind: str) -> str:
    """The value for the driver column of reports."""
    return f"koordinator.sh/{kind}"


def device_series(fleet: Fleet) -> Series:
    """Devices by type and state."""
    return [
        ((driver(tally.kind), state), float(count))
        for tally in by_type(fleet)
        for state, count in zip(STATES, tally.states, strict=True)
    ]


def amount_series(fleet: Fleet, *, left: bool) -> Series:
    """The total or free amount of each resource of healthy devices, by type."""
    found: Series = []
    for tally in by_type(fleet):
        found += [
            ((driver(tally.kind), name), free if left else total) for name, total, free in tally.amounts
        ]
        if tally.functions:
            count = tally.functions_free if left else tally.functions
            found.append(((driver(tally.kind), "virtual-functions"), float(count)))
    return found


def by_type(fleet: Fleet) -> list[Tally]:
    """One Tally for each type with devices."""
    return _tallies(fleet.columns, np.zeros(len(fleet.columns.owner), np.intp), [""], fleet.rules.upstream)


def by_node(fleet: Fleet) -> list[Tally]:
    """One Tally for each machine and type, sorted by machine name."""
    order = sorted(range(len(fleet.names)), key=fleet.names.__getitem__)
    place = np.argsort(np.array(order, dtype=np.intp))
    owner = fleet.columns.owner
    part = place[np.maximum(owner, 0)] if order else np.zeros(len(owner), np.intp)
    return _tallies(fleet.columns, part, [fleet.names[number] for number in order], fleet.rules.upstream)


def states(columns: Columns, *, upstream: bool) -> Codes:
    """(R,) index in STATES of each row in use."""
    usable = columns.some & columns.health
    if not upstream:
        usable &= ~columns.closed
    return np.where(columns.held, np.where(usable, 1, 0), np.where(usable, 2, 3)).astype(np.int32)


def _tallies(columns: Columns, part: Rows, names: list[str], upstream: bool) -> list[Tally]:
    """Devices of each part and type.

    part (R,)  index in `names`
    """
    rows = np.flatnonzero(columns.owner >= 0)
    line = part[rows] * len(TYPES) + columns.kind[rows]
    size = len(names) * len(TYPES)
    code = line * len(STATES) + states(columns, upstream=upstream)[rows]
    counts = np.bincount(code, minlength=size * len(STATES)).reshape(size, len(STATES))
    functions, unused = (
        np.bincount(line, weights=column[rows], minlength=size).astype(np.int64)
        for column in (columns.functions, columns.vfs)
    )
    sums = [
        [
            np.bincount(line, weights=of[rows, k].astype(np.float64), minlength=size)
            for k in range(len(RESOURCES))
        ]
        for of in (columns.total, columns.free)
    ]
    total, free = (np.stack(column, axis=1) for column in sums)
    return [
        Tally(
            node=names[at // len(TYPES)],
            kind=TYPES[at % len(TYPES)],
            states=tuple(counts[at].tolist()),
            amounts=tuple(
                (RESOURCES[k], float(total[at, k]), float(free[at, k]))
                for k in np.flatnonzero(total[at]).tolist()
            ),
            functions=int(functions[at]),
            functions_free=int(unused[at]),
        )
        for at in np.flatnonzero(counts.any(axis=1)).tolist()
    ]


class MachineUsage(Usage):
    """Machines, and the devices that pods hold, as they change."""

    types = TYPES
    states = STATES
    extra = "RESOURCES FREE"

    def __init__(self) -> None:
        self._state = KoordinatorState(Fleet(Rules()), lambda _: None)

    def apply(self, change: Change) -> None:
        self._state.apply(change)

    def lines(self, *, nodes: bool) -> Sequence[UsageLine]:
        fleet = self._state.fleet
        return [_line(tally) for tally in (by_node(fleet) if nodes else by_type(fleet))]


def modes(objects: Iterable[ApiObject]) -> Shown:
    """Exclusive use, by node and type: a line for each device that is held so."""
    state = KoordinatorState(Fleet(Rules()), lambda _: None)
    load(state, objects)
    shown = Shown(("NODE", "TYPE", "HELD", "EXCLUSIVE", "POD", "LOCKED OUT"), [], [])
    for name, machine in sorted(state.fleet.machines.items()):
        for kind, held, locked_out in exclusive_use(machine, state.fleet.holders(name)):
            lines = [(str(minor), policy, ", ".join(map(str, pods))) for minor, policy, pods in held]
            columns = ("\n".join(column) for column in zip(*lines, strict=True))
            shown.rows.append((name, kind, *columns, ", ".join(map(str, locked_out)) or "-"))
            values = [
                {"minor": minor, "exclusivePolicy": policy, "pods": [*map(str, pods)]}
                for minor, policy, pods in held
            ]
            shown.values.append({"node": name, "type": kind, "held": values, "lockedOut": locked_out})
    return shown


def _line(one: Tally) -> UsageLine:
    free = []
    for name, total, left in one.amounts:
        amounts = (next(iter(printed({name: int(amount)}).values())) for amount in (left, total))
        free.append(f"{name.rpartition('/')[2]} {' of '.join(amounts)}")
    if one.functions:
        free.append(f"virtual functions {one.functions_free} of {one.functions}")
    value = {
        "type": one.kind,
        "node": one.node or None,
        "devices": one.devices,
        **dict(zip(STATES, one.states, strict=True)),
        "resources": [
            {"resource": name, "total": int(total), "free": int(left)} for name, total, left in one.amounts
        ],
        "virtualFunctions": {"total": one.functions, "free": one.functions_free},
    }
    return UsageLine(one.node, one.kind, one.devices, one.states, ", ".join(free) or "-", value)
