"""Keeps the resources that pods use on their nodes up to date, event by event."""

from collections.abc import Iterable

from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.control.queueing.units import Roster
from reconciler.state.nodes.charging import node_of
from reconciler.state.nodes.demand import demand
from reconciler.state.nodes.room import Charge, Room
from reconciler.state.store import Store


class Charges:
    """Keeps the room on nodes up to date, pod by pod and claim by claim."""

    def __init__(self, store: Store, roster: Roster, room: Room) -> None:
        self._store = store
        self._roster = roster
        self._room = room
        self._counted: dict[ObjectKey, Pod] = {}
        """The pods as they were charged"""
        self._assumed: dict[ObjectKey, str] = {}
        """The decided nodes of pods, while not known to be written"""

    def assume(self, key: ObjectKey, node: str) -> None:
        """Count a pod on its decided node, until the pod itself names the node."""
        self._assumed[key] = node
        self.pod(key)

    def forget(self, key: ObjectKey) -> bool:
        """Drop the assumed node of a pod. Returns whether a node has more room now."""
        self._assumed.pop(key, None)
        return self.pod(key)

    def pod(self, key: ObjectKey) -> bool:
        """Update a changed or deleted pod. Returns whether a node has more room now."""
        pod = self._store.pods.get(key)
        node = node_of(pod, self._store) if pod is not None else ""
        if pod is None or node or pod.finished:
            self._assumed.pop(key, None)
        else:
            node = self._assumed.get(key, "")
        if pod is None or not node:
            self._counted.pop(key, None)
            return self._room.charge(key, None)
        before = self._room.charged(key)
        if before is not None and before.node == node and self._counted.get(key) is pod:
            return False  # most events of a claim come from our own writes
        self._counted[key] = pod
        return self._room.charge(key, Charge(node, demand(pod)))

    def claims(self, keys: Iterable[ObjectKey]) -> bool:
        """Update the pods of allocated or freed claims. Returns whether a node has more room now."""
        pods = {pod for key in keys for pod in self._roster.users(key)}
        roomier = [self.pod(pod) for pod in sorted(pods)]
        return any(roomier)
