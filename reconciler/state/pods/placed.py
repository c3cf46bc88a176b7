"""Where pods are that have a place already, and which devices they have."""

from collections.abc import Iterable
from typing import NamedTuple

from reconciler.api.objects.core import Pod, claims_of
from reconciler.api.objects.meta import DeviceID
from reconciler.state.nodes.charging import allocation_of, node_of
from reconciler.state.store import Store


class Placed(NamedTuple):
    """The places of several pods."""

    nodes: tuple[str, ...]
    """Of pods that are bound or pinned; not of finished ones"""
    devices: tuple[DeviceID, ...]
    """Allocated or assumed, without those for administrators; not of finished pods"""


def placed(pods: Iterable[Pod], store: Store) -> Placed:
    """The nodes and devices of pods, in their order."""
    present = [pod for pod in pods if not pod.finished]
    nodes = [node for pod in present if (node := node_of(pod, store))]
    keys = dict.fromkeys(key for pod in present for key in claims_of(pod))
    devices = [
        result.id
        for key in keys
        if (allocation := allocation_of(store, key)) is not None
        for result in allocation.devices.results
        if not result.admin_access
    ]
    return Placed(tuple(nodes), tuple(devices))
