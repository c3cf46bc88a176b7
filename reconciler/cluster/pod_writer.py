"""Reads, patches and evicts single pods, and writes Events.

Each patch applies to one version of the pod. Pods are evicted by the Eviction API, so that
PodDisruptionBudgets hold (MAKE-9); no pod is ever deleted otherwise. Nothing is retried here.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from reconciler.api.objects.core import GATE, Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.versions.reading import read
from reconciler.api.versions.shapes import mapping, mappings
from reconciler.cluster.client import JSON, Client, Raw
from reconciler.cluster.discovery import serves
from reconciler.cluster.kinds import POD, Resource, Served
from reconciler.errors import Conflict, Gone, Inconsistent, Malformed, Undecided


class PodWriter:
    """Reads and patches pods. Raises the errors of `Client`.

    A request that was cancelled may have been applied, as with Undecided: a read settles it.
    """

    def __init__(self, client: Client, served: Served) -> None:
        self._client = client
        self._pods = served["Pod"]

    async def read(self, key: ObjectKey) -> Pod | None:
        """The pod as the server has it now, or None if there is none. Raises Malformed."""
        try:
            return _pod(await self._client.get(self._pods, key))
        except Gone:
            return None

    async def patch(self, pod: Pod, steps: Sequence[Raw]) -> Pod:
        """Apply the steps of a JSON patch to a pod, all or none. Returns it as stored.

        Raises Conflict when the server has another version of the pod than was given.
        """
        guard: Raw = {"op": "replace", "path": "/metadata/resourceVersion", "value": _version(pod)}
        return _answer(await self._client.patch(self._pods, pod.key, [guard, *steps], content_type=JSON))

    async def merge(self, pod: Pod, patch: Raw) -> Pod:
        """Apply a merge patch to a pod. Returns it as stored. Raises as `patch`.

        Unlike steps, a merge patch always applies, so that another version is a Conflict and nothing else.
        """
        metadata = {**patch.get("metadata", {}), "resourceVersion": _version(pod)}
        return _answer(await self._client.patch(self._pods, pod.key, {**patch, "metadata": metadata}))


async def ungate(client: Client, pods: Resource, pod: Pod) -> Pod:
    """Remove our scheduling gate from a pod; other gates stay. Returns the pod as stored.

    Raises the errors of `Client`. Cancelled: the gate may be removed.
    """
    if not pod.gated:
        return pod
    gates = [gate.to_json() for gate in pod.spec.scheduling_gates if gate.name != GATE]
    patch = {"metadata": {"resourceVersion": _version(pod)}, "spec": {"schedulingGates": gates or None}}
    return _answer(await client.patch(pods, pod.key, patch))


def _version(pod: Pod) -> str:
    version = pod.metadata.resource_version
    if not version:  # the write would be unconditional
        raise Inconsistent(f"{pod.key} has no resourceVersion to write from")
    return version


def _answer(raw: Raw) -> Pod:
    """The pod in the response to a write, which was applied even if the response cannot be read."""
    try:
        return _pod(raw)
    except Malformed as exc:
        raise Undecided(f"the answer to a write cannot be read: {exc}") from exc


def _pod(raw: Raw) -> Pod:
    found = read(raw)
    if not isinstance(found, Pod):
        raise Inconsistent(f"{found.key} was read as {type(found).__name__}, not Pod")
    return found


class Evictions:
    """Requests evictions, and writes the hint where a pod is expected."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def evict(self, pod: ObjectKey, uid: str, *, dry_run: bool = False) -> None:
        """Ask the server to evict one pod, and no later pod of its name.

        Raises Protected where a budget does not allow it now, Conflict if the name belongs to another pod,
        Gone if there is none, and the other errors of `Client`.
        """
        options: dict[str, Any] = {"preconditions": {"uid": uid}}
        if dry_run:
            options["dryRun"] = ["All"]
        await self._client.evict(
            POD,
            pod,
            {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": pod.name, "namespace": pod.namespace},
                "deleteOptions": options,
            },
        )

    async def nominate(self, pod: Pod, node: str) -> Pod:
        """Write `status.nominatedNodeName`, or remove it if `node` is empty. Returns the pod as stored."""
        patch = {
            "metadata": {"resourceVersion": pod.metadata.resource_version},
            "status": {"nominatedNodeName": node or None},
        }
        return _answer(await self._client.patch(POD, pod.key, patch, subresource="status"))


EVICTION_REQUEST = Resource(
    "EvictionRequest", "lifecycle.k8s.io", "v1alpha1", "evictionrequests", namespaced=True
)
REQUESTER = "dra-reconciler.io/relocation"


class EvictionRequests:
    """Asks those who can end a pod gracefully, before it is evicted. Source: EVR-1 to EVR-3; a preview.

    Raises the errors of `Client`.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._served: bool | None = None

    async def ask(self, pod: ObjectKey, uid: str) -> bool:
        """Ask, if that was not done before. False if it is in vain: the server has no such requests, or says
        that nobody deals with this one.
        """
        if self._served is None:
            self._served = await serves(self._client, EVICTION_REQUEST)
        if not self._served:
            return False
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": uid}
        target = {"pod": {"name": pod.name, "uid": uid}}
        body = {
            "apiVersion": EVICTION_REQUEST.api_version,
            "kind": EVICTION_REQUEST.kind,
            "metadata": {"name": _request(uid), "namespace": pod.namespace, "ownerReferences": [owner]},
            "spec": {"target": target, "requester": REQUESTER, "intent": "Eviction"},
        }
        try:
            await self._client.create(EVICTION_REQUEST, body)
        except Gone:
            return False  # not served any more. Whether the pod is there, its eviction tells
        except Conflict:
            asked = await self._client.get(EVICTION_REQUEST, ObjectKey(pod.namespace, _request(uid)))
            conditions = mappings(mapping(asked.get("status")).get("conditions"))
            return not any(one.get("type") == "Failed" and one.get("status") == "True" for one in conditions)
        return True

    async def withdraw(self, namespace: str, uid: str) -> None:
        """Ask no more for the eviction of a pod: without the request it is canceled."""
        with suppress(Gone):
            await self._client.delete(EVICTION_REQUEST, ObjectKey(namespace, _request(uid)))

    async def withdraw_all(self) -> None:
        """Withdraw what an earlier process asked for."""
        if not await serves(self._client, EVICTION_REQUEST):
            return
        for one in mappings((await self._client.fetch(EVICTION_REQUEST.everywhere)).get("items")):
            spec = mapping(one.get("spec"))
            if spec.get("requester") == REQUESTER:
                uid = str(mapping(mapping(spec.get("target")).get("pod")).get("uid"))
                await self.withdraw(str(one["metadata"]["namespace"]), uid)


def _request(uid: str) -> str:
    return f"dra-reconciler-{uid}"


EVENT = Resource("Event", "events.k8s.io", "v1", "events", namespaced=True)


class EventWriter:
    """Creates Events and counts repetitions. Raises the errors of `Client`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def create(self, event: Raw) -> None:
        """Write a new Event."""
        await self._client.create(EVENT, event)

    async def repeat(self, key: ObjectKey, series: Raw) -> None:
        """Count another occurrence of an Event. Raises Gone if the server has deleted it."""
        await self._client.patch(EVENT, key, {"series": series})
