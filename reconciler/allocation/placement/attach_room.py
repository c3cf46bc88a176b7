"""Room for the volumes of pods that are placed together. Source: VOL-4, FIT-11.

Volumes that one of the pods brings alone are one more resource of nodes. Those that several of them use, or
that some node has already, count once on a node: by a rule.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kernels import domains
from kernels.domains import Within
from kernels.types import Amounts, Codes, Mask
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.state.nodes.table import Nodes
from reconciler.state.volumes.attached import UNLIMITED
from reconciler.state.volumes.migration import VolumeID

_PLENTY = 2**40
"""More volumes than any node can have"""


class AttachRoom(NamedTuple):
    """How many more volumes nodes can attach."""

    free: Amounts
    """(drivers, N)"""
    drivers: tuple[str, ...]
    own: Mapping[ObjectKey, frozenset[VolumeID]]
    """Pod -> the volumes that it alone brings"""
    shared: tuple["SharedVolumes", ...]
    """Of each driver with a limit that has some"""

    def wanted(self, pod: Pod) -> Amounts:
        """(drivers,) how many volumes a pod adds to its node."""
        found = [sum(one.driver == driver for one in self.own[pod.key]) for driver in self.drivers]
        return np.array(found, dtype=np.int64)

    def counters(self, rows: Sequence[int] | np.ndarray) -> list[domains.Counter]:
        """The counters of the rules, for nodes in the order of these rows."""
        return [one for shared in self.shared for one in shared.counters(rows)]

    def rules(self, pod: Pod, first: int) -> tuple[Within, ...]:
        """The rules of a pod. `first` is the position of the first of the counters."""
        return tuple(found for at, shared in self._placed(first) if (found := shared.rule(pod, at)))

    def adds(self, pod: Pod, first: int) -> tuple[int, ...]:
        """The counters in which a pod counts, as often as it does."""
        return tuple(one for at, shared in self._placed(first) for one in shared.adds(pod, at))

    def _placed(self, first: int) -> list[tuple[int, "SharedVolumes"]]:
        found = []
        for shared in self.shared:
            found.append((first, shared))
            first += 1 + len(shared.volumes)
        return found


class SharedVolumes(NamedTuple):
    """The volumes of a driver that several of the pods use, or that some node has already.

    The domain of row n is n + 1.
    """

    volumes: tuple[VolumeID, ...]
    """P volumes"""
    fresh: Mask
    """(P, N + 1) nodes that do not have the volume already, by domain"""
    left: Amounts
    """(N + 1,) how many more volumes nodes can attach, by domain"""
    used: Mapping[ObjectKey, frozenset[VolumeID]]
    """Pod -> its volumes of the driver"""

    def counters(self, rows: Sequence[int] | np.ndarray) -> list[domains.Counter]:
        """Of volumes that one pod alone brings, then one of each shared volume."""
        codes: Codes = (np.asarray(rows) + 1).astype(np.int32)
        none = np.zeros(len(self.left), dtype=np.int64)
        return [domains.Counter(codes, none) for _ in range(1 + len(self.volumes))]

    def rule(self, pod: Pod, first: int) -> Within | None:
        """The rule of a pod; None if it uses no volume of the driver."""
        used = self.used[pod.key]
        if not used:
            return None
        parts = tuple(range(first + 1, first + 1 + len(self.volumes)))
        mine = tuple(volume in used for volume in self.volumes)
        return Within(first, len(used) - sum(mine), parts, mine, self.fresh, self.left)

    def adds(self, pod: Pod, first: int) -> list[int]:
        """The counters in which a pod counts."""
        used = self.used[pod.key]
        shared = [first + 1 + at for at, volume in enumerate(self.volumes) if volume in used]
        return [first] * (len(used) - len(shared)) + shared


def attach_room(nodes: Nodes, pods: Sequence[Pod]) -> AttachRoom:
    """The room for the volumes of these pods, which do not count themselves."""
    attached, but = nodes.volumes.attached, tuple(pod.key for pod in pods)
    used = {pod.key: attached.volumes_of(pod) for pod in pods} if nodes.volumes.considered else {}
    times = Counter(volume for volumes in used.values() for volume in volumes)
    there = {volume: ~attached.without(volume, but=but) for volume in times}
    new = {one for one, number in times.items() if number == 1 and not there[one].any()}
    free, drivers, shared = [], [], []
    for driver in sorted({volume.driver for volume in times}):
        limit = attached.limit(driver)
        if not (limit != UNLIMITED).any():
            continue
        left = np.where(limit == UNLIMITED, _PLENTY, limit - attached.count(driver, but=but))
        if any(volume.driver == driver for volume in new):
            free.append(left)
            drivers.append(driver)
        # A volume that is somewhere already is counted like a shared one: not where it is.
        common = tuple(sorted(one for one in times if one.driver == driver and one not in new))
        if common:
            shared.append(_shared(driver, common, there, left, used))
    return AttachRoom(
        np.array(free, dtype=np.int64).reshape(len(free), len(nodes.every())),
        tuple(drivers),
        {pod.key: used.get(pod.key, frozenset()) & new for pod in pods},
        tuple(shared),
    )


def _shared(
    driver: str,
    volumes: tuple[VolumeID, ...],
    there: Mapping[VolumeID, Mask],
    left: Amounts,
    used: Mapping[ObjectKey, frozenset[VolumeID]],
) -> SharedVolumes:
    fresh = np.stack([np.concatenate([[False], ~there[volume]]) for volume in volumes])
    own = {key: frozenset(one for one in all_of if one.driver == driver) for key, all_of in used.items()}
    return SharedVolumes(volumes, fresh, np.concatenate([[0], left]), own)
