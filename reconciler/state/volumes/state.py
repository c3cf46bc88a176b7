"""All that is known about volumes: objects, pods that use them, attachments, and volumes that are free."""

from collections.abc import Mapping

from reconciler.api.objects.changes import Change
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.state.volumes.attached import Attached
from reconciler.state.volumes.available import Available, LabelledNodes
from reconciler.state.volumes.objects import StorageObjects
from reconciler.state.volumes.promised import Promised
from reconciler.state.volumes.uses import Uses


class VolumeState:
    """Follows storage objects, nodes, and pods on nodes."""

    def __init__(
        self, nodes: LabelledNodes, rows: Mapping[str, int], *, complete: bool, considered: bool
    ) -> None:
        """`rows` are those of `Attached`, `complete` is that of `StorageObjects`."""
        self.considered = considered
        """Whether storage objects decide where pods can run"""
        self.objects = StorageObjects(complete=complete)
        self.uses = Uses()
        self.attached = Attached(self.objects, self.uses, rows)
        self.promised = Promised(self.objects, self.uses)
        self.available = Available(self.objects, nodes, self.promised)

    def note(self, change: Change) -> bool:
        """Apply a change of a storage object; return whether placements may differ now."""
        found = self.objects.note(change)
        for before, after in found:
            self.attached.changed(before, after)
            self.promised.changed(before, after)
        return bool(found)

    def place(self, key: ObjectKey, pod: Pod | None, node: str) -> bool:
        """Set the node of a pod; return whether it leaves volumes to others."""
        was = self.uses.pod(key)
        if was is None and (pod is None or not pod.spec.volumes):
            return False
        before = self.uses.node_of(key)
        for one in self.uses.place(key, pod, node):
            self.attached.pods_changed(one)
            self.promised.pod_changed(was)
            self.promised.pod_changed(self.uses.pod(key))
        return bool(before) and self.uses.node_of(key) != before
