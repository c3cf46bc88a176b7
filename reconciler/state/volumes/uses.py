"""Which pods use which claims and disks, what is promised, how many volumes nodes can attach (VOL-4)."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from kernels.types import Amounts, Mask
from reconciler.api.objects import storage
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.state.pods.residents import Tally
from reconciler.state.volumes.objects import (
    DRIVER_OF,
    UNCOUNTED,
    StorageObjects,
    VolumeID,
    claims_named,
    inline_id,
    volume_id,
)


class Disk(NamedTuple):
    """A disk of a kind that only one pod may write, or an Amazon EBS volume, which only one pod may use."""

    kind: str
    name: str
    written: bool = False
    """Only pods that may write it count"""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


Use = ObjectKey | Disk
"""What a pod uses: a claim or a disk"""


def disks_of(volume: storage.Volume) -> tuple[tuple[Disk, bool], ...]:
    """The disks of a volume, each with whether the pod only reads it. Source: VOL-2."""
    if (gce := volume.gce_persistent_disk) is not None:
        return ((Disk("gcePersistentDisk", gce.pd_name), gce.read_only),)
    if (aws := volume.aws_elastic_block_store) is not None:
        return ((Disk("awsElasticBlockStore", aws.volume_id), False),)
    if (iscsi := volume.iscsi) is not None:
        return ((Disk("iscsi", iscsi.iqn), iscsi.read_only),)
    if (rbd := volume.rbd) is not None:  # the same image, if a monitor is the same
        found = (Disk("rbd", f"{rbd.pool}/{rbd.image} at {monitor}") for monitor in rbd.monitors)
        return tuple((disk, rbd.read_only) for disk in dict.fromkeys(found))
    return ()


def excluding(pod: Pod) -> Iterable[Disk]:
    """What no other pod on a node may use for a pod to run there."""
    for volume in pod.spec.volumes:
        for disk, read_only in disks_of(volume):
            yield disk._replace(written=read_only)


def uses_of(pod: Pod) -> tuple[Use, ...]:
    """What a pod uses, as it is counted."""
    found: dict[Use, None] = {key: None for _, key in claims_named(pod)}
    for volume in pod.spec.volumes:
        for disk, read_only in disks_of(volume):
            found[disk] = None
            if not read_only:
                found[disk._replace(written=True)] = None
    return tuple(found)


class Uses:
    """The pods on nodes that use claims or disks. N rows of nodes, as the table of nodes numbers them."""

    def __init__(self) -> None:
        self._pods: dict[ObjectKey, tuple[Pod, str, tuple[Use, ...]]] = {}
        self._on: dict[str, dict[ObjectKey, Pod]] = {}
        """Node -> its pods. A pod may arrive before its node"""
        self._nodes: dict[Use, dict[ObjectKey, str]] = {}

    def place(self, key: ObjectKey, pod: Pod | None, node: str) -> tuple[str, ...]:
        """Set the node of a pod; None if it has none or is gone. Returns the nodes where that counts."""
        before = self._pods.get(key)
        if before is None and (pod is None or not pod.spec.volumes):
            return ()
        if before and pod and before[0].metadata.uid == pod.metadata.uid and before[1] == node:
            self._pods[key] = pod, node, before[2]  # volumes of a pod cannot change
            self._on[node][key] = pod
            return ()
        changed = []
        if before is not None:
            self._remove(key)
            changed.append(before[1])
        if pod is not None and node and pod.spec.volumes:
            uses = uses_of(pod)
            self._pods[key] = pod, node, uses
            self._on.setdefault(node, {})[key] = pod
            for use in uses:
                self._nodes.setdefault(use, {})[key] = node
            changed.append(node)
        return tuple(changed)

    def pods_on(self, node: str) -> Iterable[Pod]:
        """The pods on a node that use volumes."""
        return self._on.get(node, {}).values()

    def any_on(self, node: str) -> bool:
        """Whether a pod on a node uses volumes."""
        return node in self._on

    def pod(self, key: ObjectKey) -> Pod | None:
        """A pod on a node that uses volumes; None if it does not."""
        found = self._pods.get(key)
        return None if found is None else found[0]

    def node_of(self, pod: ObjectKey) -> str:
        """The node of a pod with volumes; empty if it has none."""
        found = self._pods.get(pod)
        return "" if found is None else found[1]

    def nodes_using(self, use: Use) -> set[str]:
        """The nodes where a pod uses it."""
        return set(self._nodes.get(use, {}).values())

    def awaiting(self, claim: ObjectKey, *, but: Collection[ObjectKey]) -> str:
        """The node of a pod that uses a claim and is decided, but not bound; empty if there is none."""
        for pod, node in self.users(claim, but=but):
            if not self._pods[pod][0].spec.node_name:
                return node
        return ""

    def users(self, use: Use, *, but: Collection[ObjectKey]) -> Iterable[tuple[ObjectKey, str]]:
        """The pods that use it, without the pods `but`, and their nodes."""
        return [(pod, node) for pod, node in self._nodes.get(use, {}).items() if pod not in but]

    def _remove(self, key: ObjectKey) -> None:
        _, node, uses = self._pods.pop(key)
        del self._on[node][key]
        if not self._on[node]:
            del self._on[node]
        for use in uses:
            del self._nodes[use][key]
            if not self._nodes[use]:
                del self._nodes[use]


class Promised:
    """The claims without a volume that pods on nodes use, in the order in which the pods got their nodes.

    Claims that kube-scheduler will bind for pods that have a node: not bound yet, but no longer free. A
    pod has a node from our decision on. kube-scheduler binds its claims later, before it binds the pod.
    Source: VOL-10.
    """

    def __init__(self, objects: StorageObjects, uses: Uses) -> None:
        self._objects = objects
        self._uses = uses
        self._claims: dict[ObjectKey, None] = {}

    def pod_changed(self, pod: Pod | None) -> None:
        """A pod came to a node or left it."""
        if pod is not None:
            for _, key in claims_named(pod):
                self._update(key)

    def changed(self, before: ApiObject | None, after: ApiObject | None) -> None:
        """A storage object changed."""
        for thing in (before, after):
            if isinstance(thing, storage.PersistentVolumeClaim):
                self._update(thing.key)

    def claims(self, *, but: Collection[ObjectKey]) -> Iterator[tuple[storage.PersistentVolumeClaim, str]]:
        """The claims of other pods than `but`, each with the node of such a pod."""
        for key in self._claims:
            node = self._uses.awaiting(key, but=but)
            if node:
                yield self._objects.claims[key], node

    def node_of(self, claim: ObjectKey, *, but: Collection[ObjectKey]) -> str:
        """The node for which a claim will get its volume; empty if that is open."""
        return self._uses.awaiting(claim, but=but) if claim in self._claims else ""

    def _update(self, key: ObjectKey) -> None:
        claim = self._objects.claims.get(key)
        open_yet = claim is not None and not claim.spec.volume_name
        selected = claim is not None and storage.SELECTED_NODE in claim.metadata.annotations
        waits = open_yet and not selected and bool(self._uses.nodes_using(key))
        if not waits:
            self._claims.pop(key, None)
        elif key not in self._claims:
            self._claims[key] = None


UNLIMITED = -1


class Attached:
    """N rows of nodes, as the table of nodes numbers them.

    Counted node by node when a decision asks, and only for nodes where something changed since.
    """

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
        self._counted: dict[str, tuple[Mapping[str, int], Mapping[str, int]]] = {}
        """Node -> how many volumes of each driver it has; and how many it can attach, minus `UNLIMITED`"""
        self._counts: Tally[str] = Tally()
        self._limits: Tally[str] = Tally()

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
                case storage.CSINode():
                    self._stale.add(thing.key.name)
                case storage.VolumeAttachment():
                    self._stale.add(thing.spec.node_name)
                case storage.PersistentVolumeClaim():
                    self._stale.update(using(thing.key))
                case storage.PersistentVolume():
                    for key in self._objects.claims_of.get(thing.key.name, ()):
                        self._stale.update(using(key))
                    self._stale.update(self._objects.nodes_of.get(thing.key.name, ()))
                case storage.StorageClass():
                    self._stale.update(self._rows)

    def limit(self, driver: str) -> Amounts:
        """(N,) how many volumes of a driver each node can attach; UNLIMITED where nothing is said."""
        self._update()
        return self._limits.column(driver, self._size) + UNLIMITED

    def count(self, driver: str, *, but: Collection[ObjectKey] = ()) -> Amounts:
        """(N,) how many volumes of a driver each node has, without those of the pods `but` alone."""
        self._update()
        found = self._counts.column(driver, self._size)
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

    def _identified(self, pod: Pod, volume: storage.Volume) -> VolumeID | None:
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
        self._counted[name] = counts, {driver: most - UNLIMITED for driver, most in limits.items()}
        self._add(row, *self._counted[name], 1)

    def _clear(self, row: int, name: str) -> None:
        for volume in self._volumes.pop(name, ()):
            self._rows_of[volume].discard(row)
            if not self._rows_of[volume]:
                del self._rows_of[volume]
        self._add(row, *self._counted.pop(name, ({}, {})), -1)

    def _add(self, row: int, counts: Mapping[str, int], limits: Mapping[str, int], sign: int) -> None:
        for tally, numbers in ((self._counts, counts), (self._limits, limits)):
            for driver, number in numbers.items():
                tally.add(driver, row, sign * number)
