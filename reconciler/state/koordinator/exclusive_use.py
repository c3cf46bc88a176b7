"""Exclusive use of Koordinator's devices on a machine: who has it, and what others cannot get."""

from collections.abc import Iterator

from msgspec import Struct

from reconciler.api.koordinator.annotations import DEVICE_LEVEL, PCIE_LEVEL, Hint
from reconciler.api.objects.meta import ObjectKey
from reconciler.state.koordinator.exclusion import excluded_minors
from reconciler.state.koordinator.holdings import Holdings
from reconciler.state.koordinator.machine import Machine


class HeldAlone(Struct, frozen=True):
    """A device that a pod holds for exclusive use."""

    minor: int
    policy: str
    """`DeviceLevel`, or `PCIeLevel`: alone on the switch of the device"""
    pods: tuple[ObjectKey, ...]
    """All pods that hold any part of it"""


class ExclusiveUse(Struct, frozen=True):
    """The devices of one type on one machine, of which some are held for exclusive use."""

    node: str
    kind: str
    held: tuple[HeldAlone, ...]
    """By minor"""
    locked_out: tuple[int, ...]
    """Other minors of this type that no other pod can get, by minor"""


def exclusive_use(machine: Machine, holdings: Holdings) -> Iterator[ExclusiveUse]:
    """The types with exclusive use, in the order of the machine."""
    for kind in machine.devices:
        held = [
            HeldAlone(minor, policy, holdings.pods(kind, minor))
            for policy in (DEVICE_LEVEL, PCIE_LEVEL)
            for minor in holdings.exclusive(kind, policy)
        ]
        if held:
            closed = excluded_minors(kind, Hint(), machine, holdings, ())
            others = closed.difference(one.minor for one in held)
            held.sort(key=lambda one: one.minor)
            yield ExclusiveUse(machine.name, kind, tuple(held), tuple(sorted(others)))
