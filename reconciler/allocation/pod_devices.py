"""Devices that a plugin gives to pods without claims, as manifests or the listing of a cluster show them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from reconciler.allocation.explanation import Explanation
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.pinning import Operation


class HeldDevices(Struct, frozen=True):
    """Devices of a pod, on a node."""

    node: str
    devices: tuple[tuple[str, DeviceID], ...]
    """Type and name of each"""


class PodGrant(Struct, frozen=True):
    """What a pod is given."""

    pod: Pod
    held: HeldDevices
    shares: tuple[tuple[str, str], ...]
    """For people: each device, such as `gpu/0`, and what the pod gets of it"""
    text: str
    """How it is written down"""
    patch: list[Operation]
    """What a reconciler would write to the pod"""

    @property
    def node(self) -> str:
        return self.held.node


class PodRefusal(Struct, frozen=True):
    """Why a pod gets no devices."""

    reason: str
    message: str


class PodDevices(Protocol):
    """Pods that get devices hold them from then on."""

    offered: frozenset[str]
    """Resources that need not be in the allocatable of a node: the plugin knows their amounts"""
    notes: Sequence[str]
    """What cannot be read"""
    nodes: Sequence[str]
    """The nodes with devices"""

    @property
    def held(self) -> Mapping[ObjectKey, HeldDevices]:
        """The pods that held devices from the start."""
        ...

    def refusal(self, pod: Pod) -> PodRefusal | None:
        """Why a pod gets no devices on any node, whatever is free."""
        ...

    def place(
        self, pod: Pod, can_run: Callable[[str], bool], left_out: Callable[[], str]
    ) -> PodGrant | PodRefusal:
        """Give a pod devices of the first node that has them and where it can run.

        `left_out` says why other nodes are excluded.
        """
        ...

    def explain(self, pod: Pod, can_run: Callable[[str], bool], left_out: Callable[[], str]) -> Explanation:
        """Why a pod gets no devices, or where it would get them."""
        ...
