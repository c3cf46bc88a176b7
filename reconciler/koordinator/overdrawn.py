"""Devices of which pods hold more than there is: it cannot come about here, but others write, too."""

from collections.abc import Iterator
from typing import NamedTuple

from reconciler.koordinator.holdings import Allocation, Holdings
from reconciler.koordinator.machine import Machine
from reconciler.objects.meta import ObjectKey


class Overdrawn(NamedTuple):
    """A device, and all who hold something of it."""

    kind: str
    minor: int
    pods: tuple[ObjectKey, ...]


def overdrawn(machine: Machine, holdings: Holdings, allocation: Allocation) -> Iterator[Overdrawn]:
    """The devices of an allocation of which more is held than there is, or a virtual function twice.

    A device that is not healthy has nothing, and its holders stay: that is no finding.
    """
    for kind, grants in allocation.items():
        for grant in grants:
            capacity = machine.capacity.get(kind, {}).get(grant.minor, {})
            used = holdings.used.get(kind, {}).get(grant.minor, {})
            too_much = any(used.get(name, 0) > amount for name, amount in capacity.items())
            if too_much or any(holdings.vf_shared(kind, grant.minor, vf.bus_id) for vf in grant.vfs):
                yield Overdrawn(kind, grant.minor, holdings.pods(kind, grant.minor))
