"""Clusters with another scheduler at work, played by the test: it allocates, binds and takes back."""

import asyncio
from typing import Any

from reconciler.api.validation.served_kinds import NODE, POD
from reconciler.cluster.transport import Lines, Request, Response, Transport, WatchRequest
from tests.tools import scenario
from tests.tools.faulty_transport import Faulty
from tests.tools.patience import PATIENCE
from tests.tools.running_reconciler import Cluster
from tests.tools.small_fleet import DRIVER, Object, device_class, devices, held

SLOW: dict[str, Any] = {"backoff_base_seconds": 600.0, "backoff_cap_seconds": 600.0}


def machine(name: str, *, spec: Object | None = None, ready: str = "True", **allocatable: str) -> Object:
    """A node as a kubelet reports it."""
    found = scenario.machine(name, spec=spec, ready=ready)
    return scenario.sized(found, **allocatable) if allocatable else found


def fleet(*machines: Object, count: int = 2) -> Cluster:
    """Nodes with so many devices each."""
    cluster = Cluster([device_class(), *machines])
    for found in machines:
        cluster.load(devices(found["metadata"]["name"], *(f"d{n}" for n in range(count))))
    return cluster


def asking(**requests: str) -> Object:
    """Part of a pod's spec: one container with these requests, and limits like them."""
    resources = {"requests": requests, "limits": requests}
    return {"containers": [{"name": "main", "image": "example.com/main", "resources": resources}]}


def allocate(cluster: Cluster, claim: str, on: str, *names: str, pod: str = "", stamp: str = "") -> None:
    """As kube-scheduler does: finalizer, then allocation and reservation in one write."""
    cluster.edit(claim, finalizers=["resource.kubernetes.io/delete-protection"])
    status = held(DRIVER, on, *names, on=on)
    if stamp:
        status["allocation"]["allocationTimestamp"] = stamp
    if pod:
        uid = cluster.pod(pod)["metadata"]["uid"]
        status["reservedFor"] = [{"resource": "pods", "name": pod, "uid": uid}]
    cluster.edit(claim, status=True, **status)


def take_back(cluster: Cluster, claim: str) -> None:
    """As kube-scheduler's PostFilter does: the allocation goes, the finalizer stays."""
    cluster.edit(claim, status=True, allocation=None, reservedFor=None)


def bind(cluster: Cluster, pod: str, on: str) -> None:
    cluster.api.bind("default", pod, on)


def gone(cluster: Cluster, pod: str) -> None:
    cluster.api.delete(POD, "default", pod)


def change_node(cluster: Cluster, name: str, found: Object) -> None:
    """The node reports something else."""

    def changed(shown: Object) -> Object:
        return {**shown, "spec": found["spec"], "status": found["status"]}

    cluster.api.update(NODE, "", name, changed)
    cluster.api.update(NODE, "", name, changed, subresource="status")


class Listening:
    """A transport that knows which kinds were listed: each is watched from then on."""

    KINDS = frozenset(
        {"nodes", "pods", "resourceslices", "resourceclaims", "deviceclasses", "devicetaintrules"}
    )

    def __init__(self) -> None:
        self.behind: Transport | None = None
        self._watched: set[str] = set()
        self._all = asyncio.Event()

    def prepare(self, faulty: Faulty) -> None:
        self.behind, faulty.behind = faulty.behind, self

    async def listed(self) -> None:
        """Wait until everything was listed."""
        async with asyncio.timeout(PATIENCE):
            await self._all.wait()

    async def send(self, request: Request) -> Response:
        assert self.behind is not None
        return await self.behind.send(request)

    def stream(self, request: WatchRequest) -> Lines:
        assert self.behind is not None
        self._watched.add(request.path.rpartition("/")[2])
        if self._watched >= self.KINDS:
            self._all.set()
        return self.behind.stream(request)
