"""Finds overcommitted devices. Our decisions never overcommit one, but other writers may."""

from collections.abc import Iterator
from typing import NamedTuple

from reconciler.api.objects.meta import ObjectKey
from reconciler.state.koordinator.holdings import Allocation, Holdings
from reconciler.state.koordinator.machine import Machine


class Overdrawn(NamedTuple):
    """An overcommitted device, and all pods that hold a part of it."""

    kind: str
    minor: int
    pods: tuple[ObjectKey, ...]


def overdrawn(machine: Machine, holdings: Holdings, allocation: Allocation) -> Iterator[Overdrawn]:
    """The overcommitted devices of an allocation: by shares, or by a virtual function that two pods hold.

    An unhealthy device has no capacity and keeps its holders: it does not count as overcommitted.
    """
    for kind, grants in allocation.items():
        for grant in grants:
            capacity = machine.capacity.get(kind, {}).get(grant.minor, {})
            used = holdings.used.get(kind, {}).get(grant.minor, {})
            too_much = any(used.get(name, 0) > amount for name, amount in capacity.items())
            if too_much or any(holdings.vf_shared(kind, grant.minor, vf.bus_id) for vf in grant.vfs):
                yield Overdrawn(kind, grant.minor, holdings.pods(kind, grant.minor))
