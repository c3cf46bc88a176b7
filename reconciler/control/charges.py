"""Keeps the pods on nodes up to date, as pods, claims and decisions change."""

from collections.abc import Iterable
from functools import reduce

from msgspec import Struct

from reconciler.api.objects.core import Pod, claims_of
from reconciler.api.objects.meta import ObjectKey
from reconciler.control.units import Roster
from reconciler.state.nodes.table import HERE, Hosted, Nodes
from reconciler.state.pods.device_shares import demand_of
from reconciler.state.pods.placed import node_of
from reconciler.state.store import Store


class Charges(Struct, eq=False):
    """Keeps the pods on nodes up to date, pod by pod and claim by claim."""

    _store: Store
    _roster: Roster
    _nodes: Nodes
    _counted: dict[ObjectKey, tuple[Pod, str]] = {}
    """The pods as they were counted, and their nodes"""
    assumed: dict[ObjectKey, str] = {}
    """The decided nodes of pods, while not known to be written"""

    def assume(self, key: ObjectKey, node: str) -> Hosted:
        """Count a pod on its decided node, until the pod itself names the node."""
        self.assumed[key] = node
        return self.pod(key)

    def forget(self, key: ObjectKey) -> Hosted:
        """Drop the assumed node of a pod. Returns what that means for pods that wait."""
        self.assumed.pop(key, None)
        return self.pod(key)

    def pod(self, key: ObjectKey) -> Hosted:
        """Update a changed or deleted pod. Returns what that means for pods that wait."""
        pod = self._store.pods.get(key)
        node = node_of(pod, self._store) if pod is not None else ""
        if pod is None or node or pod.finished:
            self.assumed.pop(key, None)
        else:
            node = self.assumed.get(key, "")
        if pod is None or not node:
            self._counted.pop(key, None)
            nominated = self._nodes.residents.nominate(key, pod)
            return _roomier(self._nodes.host(key, None), nominated)
        before, on = self._counted.get(key, (None, ""))
        shares = self._store.supply.counts_device_shares and claims_of(pod)
        if before is pod and on == node and not shares:  # else it changes with the claims and their devices
            return HERE  # most events of a claim come from our own writes
        self._counted[key] = pod, node
        nominated = self._nodes.residents.nominate(key, None)
        return _roomier(self._nodes.host(key, pod, node, demand_of(pod, self._store)), nominated)

    def claims(self, keys: Iterable[ObjectKey]) -> Hosted:
        """Update the pods of changed claims. Returns what that means for pods that wait."""
        pods = {pod for key in keys for pod in self._roster.users(key)}
        if len(pods) == 1:
            return self.pod(*pods)
        if not pods:  # claims that are managed by themselves
            return HERE
        return hosted(self.pod(pod) for pod in sorted(pods))


def _roomier(found: Hosted, nominated: bool) -> Hosted:
    """A change that also makes room if a nomination changed."""
    return found | Hosted(roomier=True, counted=False) if nominated else found


def hosted(changes: Iterable[Hosted]) -> Hosted:
    """All changes as one."""
    return reduce(Hosted.__or__, changes, HERE)
