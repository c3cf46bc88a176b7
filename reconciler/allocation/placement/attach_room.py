"""Room for the volumes of pods that are placed together, as more resources of nodes. Source: VOL-4, FIT-11.

Volumes that several of the pods share, or that some node has already, are tested for each pod alone.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kernels.types import Amounts
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.state.nodes.table import Nodes
from reconciler.state.volumes.attached import UNLIMITED
from reconciler.state.volumes.migration import VolumeID


class AttachRoom(NamedTuple):
    """How many more volumes nodes can attach."""

    free: Amounts
    """(drivers, N)"""
    drivers: tuple[str, ...]
    own: Mapping[ObjectKey, frozenset[VolumeID]]
    """Pod -> the volumes that it alone brings"""

    def wanted(self, pod: Pod) -> Amounts:
        """(drivers,) how many volumes a pod adds to its node."""
        found = [sum(one.driver == driver for one in self.own[pod.key]) for driver in self.drivers]
        return np.array(found, dtype=np.int64)


def attach_room(nodes: Nodes, pods: Sequence[Pod]) -> AttachRoom:
    """The room for the volumes of these pods, which do not count themselves."""
    attached, but = nodes.volumes.attached, tuple(pod.key for pod in pods)
    used = {pod.key: attached.volumes_of(pod) for pod in pods} if nodes.volumes.considered else {}
    times = Counter(volume for volumes in used.values() for volume in volumes)
    new = {one for one, number in times.items() if number == 1 and attached.without(one, but=but).all()}
    free, drivers = [], []
    for driver in sorted({volume.driver for volume in new}):
        limit = attached.limit(driver)
        if (limit != UNLIMITED).any():
            left = limit - attached.count(driver, but=but)
            free.append(np.where(limit == UNLIMITED, np.iinfo(np.int64).max, left))
            drivers.append(driver)
    size = len(nodes.every())
    return AttachRoom(
        np.array(free, dtype=np.int64).reshape(len(free), size),
        tuple(drivers),
        {pod.key: used.get(pod.key, frozenset()) & new for pod in pods},
    )
