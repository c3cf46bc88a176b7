"""Claims that kube-scheduler will bind for pods that have a node: not bound yet, but no longer free.

A pod has a node from our decision on. kube-scheduler binds its claims later, before it binds the pod.
Source: VOL-10.
"""

from collections.abc import Collection, Iterator

from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.storage import SELECTED_NODE, PersistentVolumeClaim
from reconciler.state.volumes.objects import StorageObjects, claims_named
from reconciler.state.volumes.uses import Uses


class Promised:
    """The claims without a volume that pods on nodes use, in the order in which the pods got their nodes."""

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
            if isinstance(thing, PersistentVolumeClaim):
                self._update(thing.key)

    def claims(self, *, but: Collection[ObjectKey]) -> Iterator[tuple[PersistentVolumeClaim, str]]:
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
        selected = claim is not None and SELECTED_NODE in claim.metadata.annotations
        waits = open_yet and not selected and bool(self._uses.nodes_using(key))
        if not waits:
            self._claims.pop(key, None)
        elif key not in self._claims:
            self._claims[key] = None
