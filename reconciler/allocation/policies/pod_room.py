"""What a policy may know of a pod and of the room on nodes. Imports nothing that decides."""

from typing import Protocol

from msgspec import Struct

from kernels.types import Amounts, Mask

UNKNOWN_CORES = 2**40
"""Free thousandths of a CPU where they are not known; more count as so many"""


class Preferences(Protocol):
    """What a pod prefers among N nodes. It excludes none."""

    @property
    def first(self) -> bool:
        """Whether points come before the keys of the policy. Otherwise they decide between equal keys."""

    @property
    def with_first_fit(self) -> bool:
        """Whether they count for claims without a policy, too: first fit finds all nodes equal."""

    def points(self, among: Mask) -> Amounts:
        """(N,) points of the nodes in `among` (N,); the most is the best."""


class PodRoom(Struct, frozen=True, eq=False):
    """What the pod of the claims needs of a node besides devices, and what it prefers."""

    cores: int
    """Thousandths of a CPU"""
    free: Amounts
    """(N,) thousandths of a CPU that are free, in the order of `Topology.order`"""
    preferences: Preferences | None = None
    """None if they do not count, or all nodes are the same to the pod"""
