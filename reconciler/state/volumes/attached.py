"""How many volumes of each CSI driver are attached to each node, and how many it can attach. Source: VOL-4.

Counted node by node when a decision asks, and only for nodes where something changed since.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping

import numpy as np

from kernels.types import Amounts, Mask
from reconciler.api.objects.core import Pod, Volume
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from reconciler.state.nodes.growing import widened
from reconciler.state.volumes.migration import DRIVER_OF, UNCOUNTED, VolumeID, inline_id, volume_id
from reconciler.state.volumes.objects import StorageObjects
from reconciler.state.volumes.uses import Uses

UNLIMITED = -1


class Attached:
    """N rows of nodes, as the table of nodes numbers them."""

    def __init__(self, objects: StorageObjects, uses: Uses, rows: Mapping[str, int]) -> None:
        """`rows` are the rows of nodes by name; the owner keeps them up to date."""
        self._objects = objects
        self._uses = uses
        self._rows = rows
        self._size = 0
        self._stale: set[str] = set()
        self._volumes: dict[str, frozenset[VolumeID]] = {}
        """Node -> the volumes of its pods"""
        self._rows_of: dict[VolumeID, set[int]] = defaultdict(set)
        self._counted: dict[str, frozenset[str]] = {}
        """Node -> the drivers with a count or a limit"""
        self._counts: dict[str, Amounts] = {}
        self._limits: dict[str, Amounts] = {}

    def put_node(self, row: int, name: str) -> None:
        """A node has a row now."""
        self._size = max(self._size, row + 1)
        objects = self._objects
        if name in objects.csi_nodes or name in objects.attached_to or self._uses.any_on(name):
            self._stale.add(name)

    def drop_node(self, row: int, name: str) -> None:
        """A node is gone, and its row may be used again."""
        self._clear(row, name)
        self._stale.discard(name)

    def pods_changed(self, node: str) -> None:
        """A pod with volumes came to a node or left it."""
        self._stale.add(node)

    def changed(self, before: ApiObject | None, after: ApiObject | None) -> None:
        """A storage object changed."""
        using = self._uses.nodes_using
        for thing in (before, after):
            match thing:
                case CSINode():
                    self._stale.add(thing.key.name)
                case VolumeAttachment():
                    self._stale.add(thing.spec.node_name)
                case PersistentVolumeClaim():
                    self._stale.update(using(thing.key))
                case PersistentVolume():
                    for key in self._objects.claims_of.get(thing.key.name, ()):
                        self._stale.update(using(key))
                    self._stale.update(self._objects.nodes_of.get(thing.key.name, ()))
                case StorageClass():
                    self._stale.update(self._rows)

    def limit(self, driver: str) -> Amounts:
        """(N,) how many volumes of a driver each node can attach; UNLIMITED where nothing is said."""
        self._update()
        column = self._limits.get(driver)
        if column is None:
            return np.full(self._size, UNLIMITED, dtype=np.int64)
        found: Amounts = widened(column, self._size)[: self._size] + UNLIMITED
        return found

    def count(self, driver: str, *, but: Collection[ObjectKey] = ()) -> Amounts:
        """(N,) how many volumes of a driver each node has, without those of the pods `but` alone."""
        self._update()
        column = self._counts.get(driver)
        if column is None:
            return np.zeros(self._size, dtype=np.int64)
        found: Amounts = widened(column, self._size)[: self._size]
        for name, row in self._nodes_of(but):
            found = found.copy()
            found[row] = self._numbers(name, self._of_pods(name, but))[driver]
        return found

    def without(self, volume: VolumeID, *, but: Collection[ObjectKey] = ()) -> Mask:
        """(N,) the nodes where no pod, apart from the pods `but`, uses a volume."""
        self._update()
        found = np.ones(self._size, dtype=np.bool_)
        found[list(self._rows_of.get(volume, ()))] = False
        for name, row in self._nodes_of(but):
            found[row] = volume not in self._of_pods(name, but)
        return found

    def volumes_of(self, pod: Pod) -> frozenset[VolumeID]:
        """The volumes of a pod that attach limits count."""
        found = (self._identified(pod, volume) for volume in pod.spec.volumes)
        return frozenset(one for one in found if one is not None)

    def _nodes_of(self, but: Collection[ObjectKey]) -> Iterable[tuple[str, int]]:
        for name in {self._uses.node_of(key) for key in but}:
            if name in self._rows:
                yield name, self._rows[name]

    def _of_pods(self, node: str, but: Collection[ObjectKey] = ()) -> frozenset[VolumeID]:
        found: set[VolumeID] = set()
        for pod in self._uses.pods_on(node):
            if pod.key not in but:
                found |= self.volumes_of(pod)
        return frozenset(found)

    def _identified(self, pod: Pod, volume: Volume) -> VolumeID | None:
        claim = self._objects.claim_of(pod, volume)
        if claim is None:
            found = inline_id(volume)
            return found if found is not None and found.handle else None
        named = self._objects.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
        if named is not None:
            return volume_id(named)
        class_ = self._objects.classes.get(claim.storage_class)
        if class_ is None or class_.provisioner in UNCOUNTED:
            return None
        driver = DRIVER_OF.get(class_.provisioner, class_.provisioner)
        # No driver has such a handle: the volume does not exist yet.
        return VolumeID(driver, f"\0{claim.key}") if driver else None

    def _numbers(self, node: str, of_pods: frozenset[VolumeID]) -> Counter[str]:
        attached = set(of_pods)
        for one in self._objects.attached_to.get(node, {}).values():
            volume = self._objects.volumes.get(one.spec.source.persistent_volume_name or "")
            if one.spec.attacher and volume is not None and volume.spec.csi is not None:
                attached.add(VolumeID(one.spec.attacher, volume.spec.csi.volume_handle))
        return Counter(one.driver for one in attached)

    def _update(self) -> None:
        for name in self._stale:
            if name in self._rows:
                self._clear(self._rows[name], name)
                self._recount(name, self._rows[name])
        self._stale.clear()

    def _recount(self, name: str, row: int) -> None:
        volumes = self._volumes[name] = self._of_pods(name)
        for volume in volumes:
            self._rows_of[volume].add(row)
        counts = self._numbers(name, volumes)
        csi_node = self._objects.csi_nodes.get(name)
        limits = {} if csi_node is None else csi_node.limits()
        for driver, number in counts.items():
            self._set(self._counts, driver, row, number)
        for driver, number in limits.items():
            self._set(self._limits, driver, row, number - UNLIMITED)
        self._counted[name] = frozenset(counts) | frozenset(limits)

    def _clear(self, row: int, name: str) -> None:
        for volume in self._volumes.pop(name, ()):
            self._rows_of[volume].discard(row)
            if not self._rows_of[volume]:
                del self._rows_of[volume]
        for driver in self._counted.pop(name, ()):
            for columns in (self._counts, self._limits):
                if driver in columns:
                    self._set(columns, driver, row, 0)

    def _set(self, columns: dict[str, Amounts], driver: str, row: int, value: int) -> None:
        column = columns.get(driver)
        if column is None:
            column = np.zeros(self._size, dtype=np.int64)
        column = columns[driver] = widened(column, max(self._size, row + 1))
        column[row] = value
