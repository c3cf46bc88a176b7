"""The devices that the pods of one node hold (KOO-7), from their annotations.

A restart rebuilds its state from them. Also who uses devices exclusively, and which devices
are overcommitted.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping

from msgspec import Struct, field

from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.pinning import pinned
from reconciler.errors import Malformed
from reconciler.plugins.koordinator import annotations
from reconciler.plugins.koordinator import vocabulary as koord
from reconciler.plugins.koordinator.annotations import DEVICE_LEVEL, PCIE_LEVEL, AllocatedDevice, Hint
from reconciler.plugins.koordinator.demand import by_type, requested
from reconciler.plugins.koordinator.machine import Machine


class Grant(Struct, frozen=True):
    """A device, or a part of one, that is allocated to a pod."""

    minor: int
    shares: koord.Shares
    vfs: tuple[koord.VirtualFunction, ...] = ()
    template: str = ""


Allocation = Mapping[str, tuple[Grant, ...]]
"""Device type -> grants."""


def recorded(
    subject: str, annotation: Mapping[str, tuple[AllocatedDevice, ...]]
) -> dict[str, tuple[Grant, ...]]:
    """A result annotation as grants. Raises Malformed for amounts out of range."""
    return {
        kind: tuple(
            Grant(
                entry.minor,
                koord.shares_of(subject, entry.resources),
                entry.extension.vfs if entry.extension else (),
                entry.extension.gpu_shared_resource_template if entry.extension else "",
            )
            for entry in entries
        )
        for kind, entries in annotation.items()
    }


class Holdings(Struct):
    """Used shares and virtual functions by type and minor, and the allocation of each pod."""

    alone: int = 0
    """Number of pods with exclusive use of a device."""
    used: dict[str, dict[int, dict[str, int]]] = field(default_factory=dict)
    """Without unused minors."""
    _pods: dict[ObjectKey, tuple[Allocation, Mapping[str, str]]] = field(default_factory=dict)
    _holders: Counter[tuple[str, int]] = field(default_factory=Counter)
    _vfs: dict[tuple[str, int], dict[str, int]] = field(default_factory=dict)
    """Type and minor -> bus id -> pods; without those that nobody has."""
    _marks: dict[tuple[str, int], Hashable] = field(default_factory=dict)
    """The part of `state` of each held device, except of those in `_unmarked`."""
    _unmarked: set[tuple[str, int]] = field(default_factory=set)

    def __contains__(self, pod: ObjectKey) -> bool:
        return pod in self._pods

    def __bool__(self) -> bool:
        return bool(self._pods)

    def hold(self, pod: ObjectKey, allocation: Allocation, hints: Mapping[str, Hint]) -> None:
        """Record the allocation of a pod; replaces its earlier one."""
        self.release(pod)
        policies = {
            kind: hint.exclusive_policy
            for kind, hint in hints.items()
            if hint.exclusive_policy in (DEVICE_LEVEL, PCIE_LEVEL)
        }
        self._pods[pod] = (allocation, policies)
        self.alone += bool(policies)
        for kind, grant in _grants(allocation):
            before = self.used.setdefault(kind, {}).get(grant.minor)
            self._use(kind, grant.minor, koord.plus(before, grant.shares) if before else grant.shares)
            self._holders[kind, grant.minor] += 1
            self._unmarked.add((kind, grant.minor))
            if grant.vfs:
                taken = self._vfs.setdefault((kind, grant.minor), {})
                for vf in grant.vfs:
                    taken[vf.bus_id] = taken.get(vf.bus_id, 0) + 1

    def release(self, pod: ObjectKey) -> None:
        """Forget a pod; one that is not known is no error."""
        if pod not in self._pods:
            return
        allocation, policies = self._pods.pop(pod)
        self.alone -= bool(policies)
        for kind, grant in _grants(allocation):
            before = self.used.setdefault(kind, {}).get(grant.minor, koord.NOTHING)
            self._use(kind, grant.minor, {name: n - grant.shares.get(name, 0) for name, n in before.items()})
            self._holders[kind, grant.minor] -= 1
            self._unmarked.add((kind, grant.minor))
            if grant.vfs:
                taken = self._vfs[kind, grant.minor]
                for vf in grant.vfs:
                    taken[vf.bus_id] -= 1
                    if not taken[vf.bus_id]:
                        del taken[vf.bus_id]

    def state(self) -> Hashable:
        """Equal for holdings that no decision tells apart: it does not matter which pod holds what.

        Costs as much as has changed since the last call.
        """
        for kind, minor in self._unmarked:
            if self.is_held(kind, minor):
                used = self.used.get(kind, {}).get(minor, koord.NOTHING)
                vfs = frozenset(self._vfs.get((kind, minor), ()))
                self._marks[kind, minor] = (kind, minor, frozenset(used.items()), vfs)
            else:
                self._marks.pop((kind, minor), None)
        self._unmarked.clear()
        return frozenset(self._marks.values()), self._closing() if self.alone else frozenset()

    def _closing(self) -> frozenset[tuple[str, str, int]]:
        """Type, policy and minor of the devices that are held for exclusive use."""
        return frozenset(
            (kind, policy, grant.minor)
            for allocation, policies in self._pods.values()
            for kind, policy in policies.items()
            for grant in allocation.get(kind, ())
        )

    def vf_taken(self, kind: str, minor: int, bus_id: str) -> bool:
        """Whether a pod has a virtual function."""
        return bus_id in self._vfs.get((kind, minor), ())

    def vf_shared(self, kind: str, minor: int, bus_id: str) -> bool:
        """Whether more than one pod has a virtual function."""
        taken = self._vfs.get((kind, minor))
        return taken is not None and taken.get(bus_id, 0) > 1

    def allocation(self, pod: ObjectKey) -> Allocation | None:
        """The allocation of a pod on this node."""
        return self._pods[pod][0] if pod in self._pods else None

    def pods(self, kind: str, minor: int) -> tuple[ObjectKey, ...]:
        """The pods that hold any part of a device, sorted by name."""
        return tuple(
            sorted(
                pod
                for pod, (allocation, _) in self._pods.items()
                if any(grant.minor == minor for grant in allocation.get(kind, ()))
            )
        )

    def grants(self) -> Iterator[tuple[ObjectKey, str, Grant]]:
        """Pod, type and grant of all allocations on this node."""
        return (
            (pod, kind, grant)
            for pod, (allocation, _) in self._pods.items()
            for kind, grant in _grants(allocation)
        )

    def is_held(self, kind: str, minor: int) -> bool:
        """Whether a pod holds any part of a device."""
        return self._holders[kind, minor] > 0

    def held(self, kind: str) -> frozenset[int]:
        """Devices of which a pod holds any part, even only a virtual function."""
        return frozenset(minor for (of, minor), n in self._holders.items() if of == kind and n > 0)

    def exclusive(self, kind: str, policy: str) -> frozenset[int]:
        """Devices that are held by pods with this exclusive policy."""
        return frozenset(
            grant.minor
            for allocation, policies in self._pods.values()
            if policies.get(kind) == policy
            for grant in allocation.get(kind, ())
        )

    def minors(self) -> Iterator[tuple[str, int]]:
        """Type and minor of every device held."""
        return (key for key, n in self._holders.items() if n > 0)

    def _use(self, kind: str, minor: int, amounts: koord.Shares) -> None:
        """Write without zeros: `used` must not depend on the order of changes."""
        left = {name: amount for name, amount in amounts.items() if amount}
        if left:
            self.used[kind][minor] = left
        else:
            self.used[kind].pop(minor, None)


def _grants(allocation: Allocation) -> Iterator[tuple[str, Grant]]:
    return ((kind, grant) for kind, grants in allocation.items() for grant in grants)


class Holder(Struct, frozen=True):
    """The allocation of a pod, its node, and its hints."""

    node: str
    allocation: Allocation
    hints: Mapping[str, Hint]


def holder(pod: Pod) -> Holder | None:
    """The devices that a pod holds, or None. Raises Malformed if its result annotation is invalid.

    A pod that is not bound yet holds devices of the node that it is pinned to. An invalid hint excludes no
    other pod: the pod was not admitted because of it.
    """
    subject = f"Pod {pod.key}"
    node = pinned(pod)
    if not node or pod.finished:
        return None
    allocation = recorded(subject, annotations.allocated(subject, pod.metadata.annotations))
    if not allocation:
        return None
    try:
        hints = annotations.hints(subject, pod.metadata.annotations)
    except Malformed:
        hints = {}
    return Holder(node, allocation, hints)


def holder_of_all(pod: Pod, machine: Machine | None) -> Holder | None:
    """What a pod counts as holding whose result annotation cannot be read: all devices of its types."""
    node = pinned(pod)
    if not node or pod.finished:
        return None
    types = _types_of(pod)
    devices = machine.devices if machine is not None else {}
    return Holder(
        node,
        {
            kind: tuple(
                Grant(minor, koord.shares_of(str(pod.key), info.resources), _functions(info))
                for minor, info in minors.items()
            )
            for kind, minors in devices.items()
            if kind in types
        },
        {},
    )


def _types_of(pod: Pod) -> Collection[str]:
    """The types that a pod requests; all if that cannot be read either."""
    try:
        return by_type(requested(pod)).keys() or koord.TYPES
    except Malformed:
        return koord.TYPES


def _functions(info: koord.DeviceInfo) -> tuple[koord.VirtualFunction, ...]:
    return tuple(function for group in info.vf_groups for function in group.vfs)


def excluded_minors(
    kind: str, hint: Hint, machine: Machine, holdings: Holdings, released: Collection[int]
) -> frozenset[int]:
    """Minors of one type that a pod cannot have, because it or a holder requests exclusive use.

    Exclusive use is without another holder of that type on the device, or on its PCIe switch. A device
    without a known switch cannot be alone on it, and may be on that of any other one without. The holders of
    minors in `released` are ignored.
    """
    minors = machine.devices.get(kind, {}).keys()
    closed = set(holdings.exclusive(kind, DEVICE_LEVEL)) - set(released)
    busy_switches = {
        machine.pcie(kind, minor) for minor in holdings.exclusive(kind, PCIE_LEVEL).difference(released)
    }
    held = holdings.held(kind).difference(released)
    if hint.exclusive_policy == DEVICE_LEVEL:
        closed |= held
    elif hint.exclusive_policy == PCIE_LEVEL:
        busy_switches |= {machine.pcie(kind, minor) for minor in held} | {None}
    return frozenset(m for m in minors if m in closed or machine.pcie(kind, m) in busy_switches)


HeldAlone = tuple[int, str, tuple[ObjectKey, ...]]
"""A device that a pod holds for exclusive use: its minor, `DeviceLevel` or `PCIeLevel` (alone on the switch
of the device), and all pods that hold any part of it"""


def exclusive_use(machine: Machine, holdings: Holdings) -> Iterator[tuple[str, list[HeldAlone], list[int]]]:
    """The types of which devices are held for exclusive use, in the order of the machine; these devices; and
    the other minors of the type that no other pod can get. Both by minor.
    """
    for kind in machine.devices:
        held = sorted(
            (minor, policy, holdings.pods(kind, minor))
            for policy in (DEVICE_LEVEL, PCIE_LEVEL)
            for minor in holdings.exclusive(kind, policy)
        )
        if held:
            closed = excluded_minors(kind, Hint(), machine, holdings, ())
            yield kind, held, sorted(closed.difference(minor for minor, _, _ in held))


def overdrawn(
    machine: Machine, holdings: Holdings, allocation: Allocation
) -> Iterator[tuple[DeviceID, tuple[ObjectKey, ...]]]:
    """The overcommitted devices of an allocation, each with all pods that hold a part of it: by shares, or by
    a virtual function that two pods hold.

    An unhealthy device has no capacity and keeps its holders: it does not count as overcommitted.
    """
    for kind, grants in allocation.items():
        for grant in grants:
            capacity = machine.capacity.get(kind, {}).get(grant.minor, {})
            used = holdings.used.get(kind, {}).get(grant.minor, {})
            too_much = any(used.get(name, 0) > amount for name, amount in capacity.items())
            if too_much or any(holdings.vf_shared(kind, grant.minor, vf.bus_id) for vf in grant.vfs):
                device = DeviceID(kind, machine.name, str(grant.minor))
                yield device, holdings.pods(kind, grant.minor)
