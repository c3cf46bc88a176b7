"""The devices that the pods of one node hold (KOO-7). Mutable."""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping

from msgspec import Struct, field

from reconciler.api.koordinator.amounts import NOTHING, Shares, plus, shares_of
from reconciler.api.koordinator.annotations import DEVICE_LEVEL, PCIE_LEVEL, AllocatedDevice, Hint
from reconciler.api.koordinator.device import VirtualFunction
from reconciler.api.objects.meta import ObjectKey


class Grant(Struct, frozen=True):
    """A device, or a part of one, that is allocated to a pod."""

    minor: int
    shares: Shares
    vfs: tuple[VirtualFunction, ...] = ()
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
                shares_of(subject, entry.resources),
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
            self._use(kind, grant.minor, plus(before, grant.shares) if before else grant.shares)
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
            before = self.used.setdefault(kind, {}).get(grant.minor, NOTHING)
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
                used = self.used.get(kind, {}).get(minor, NOTHING)
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

    def _use(self, kind: str, minor: int, amounts: Shares) -> None:
        """Write without zeros: `used` must not depend on the order of changes."""
        left = {name: amount for name, amount in amounts.items() if amount}
        if left:
            self.used[kind][minor] = left
        else:
            self.used[kind].pop(minor, None)


def _grants(allocation: Allocation) -> Iterator[tuple[str, Grant]]:
    return ((kind, grant) for kind, grants in allocation.items() for grant in grants)
