"""Which pods on nodes use which claims and disks."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from reconciler.api.objects.core import Pod, Volume
from reconciler.api.objects.meta import ObjectKey
from reconciler.state.volumes.objects import claims_named


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


def disks_of(volume: Volume) -> tuple[tuple[Disk, bool], ...]:
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
        if (
            before is not None
            and pod is not None
            and (before[0].metadata.uid, before[1])
            == (
                pod.metadata.uid,
                node,
            )
        ):
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
