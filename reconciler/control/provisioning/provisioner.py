"""Keeps one ProvisioningRequest for each group of pods that needs new nodes, and removes those not needed."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import structlog
from msgspec import Struct

from reconciler.aio.worker_thread import Closed, ShouldContinue, WorkerThread
from reconciler.allocation.dra.budget import Unfinished
from reconciler.api.objects.changes import Changed, Notice, Refused, Removed, Replaced
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.pods import claims_of
from reconciler.api.objects.provisioning import ProvisioningRequest, pod_template, provisioning_request
from reconciler.api.objects.slices import ResourceSlice
from reconciler.cluster.client import Client
from reconciler.cluster.kinds import POD, POD_TEMPLATE, PROVISIONING_REQUEST
from reconciler.control.decisions.declaration import Report
from reconciler.control.decisions.every import NodesNotRequested, NodesRequested
from reconciler.control.failures import Failures
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.provisioning.groups import Group, groups_of
from reconciler.errors import Conflict, Gone, Paused, ReconcilerError, Rejected
from reconciler.state.devices.snapshot.fork import Fork, Forked
from reconciler.state.nodes.table import Nodes
from reconciler.state.pods.groups import PodGroups

log = structlog.get_logger()

EVERY = 10.0
"""Seconds between two looks"""
MOST = 100
"""Requests at a time"""


class NodesQuestion(Struct, frozen=True, eq=False):
    """Groups that do not fit, and forks of the state."""

    groups: Sequence[Group]
    fork: Fork
    nodes: Nodes
    pod_groups: PodGroups
    slices: Sequence[ResourceSlice]


Needed = Mapping[ObjectKey, tuple[int, tuple[str, ...]]]
"""Request -> pods that need new nodes, and present nodes of which an empty one would serve them"""
Size = Callable[[NodesQuestion, ShouldContinue], Needed]


class Provisioner:
    """Looks at the pods that wait, in intervals: new nodes take minutes."""

    def __init__(
        self,
        intake: Intake,
        client: Client,
        ours: Ownership,
        size: Size,
        *,
        class_name: str,
        patience: float,
        leads: asyncio.Event,
        clock: Callable[[], float],
        report: Report,
        failures: Failures,
    ) -> None:
        """`size` answers which pods need nodes; `patience` in seconds is how long pods must have waited."""
        self._intake, self._client, self._ours, self._size = intake, client, ours, size
        self._class, self._patience, self._leads = class_name, patience, leads
        self._clock, self._report, self._failures = clock, report, failures
        self._requests: dict[ObjectKey, ProvisioningRequest] = {}
        self._listed = asyncio.Event()
        self._since: dict[ObjectKey, float] = {}
        """Group -> since when it waits without a request"""
        self._thread = WorkerThread("sizing")

    def take(self, change: Notice) -> None:
        """The sink of the watch of ProvisioningRequests."""
        match change:
            case Changed(object=ProvisioningRequest() as request):
                self._requests[request.key] = request
            case Removed(key=key) | Refused(key=key):
                self._requests.pop(key, None)
            case Replaced(objects=objects):
                self._requests = {one.key: one for one in objects if isinstance(one, ProvisioningRequest)}
                self._listed.set()

    async def run(self) -> None:
        """Look until cancelled."""
        await self._intake.listed.wait()
        await self._listed.wait()
        try:
            while True:
                await self._leads.wait()
                with self._failures.contained("provisioning"):
                    await self._attempt()
                await asyncio.sleep(EVERY)
        finally:
            self._thread.close()

    async def _attempt(self) -> None:
        try:
            await self._look()
        except (Paused, Unfinished, Closed):
            pass
        except ReconcilerError as exc:
            if isinstance(exc, Rejected):
                log.warning("provisioning request not written", error=str(exc))

    async def _look(self) -> None:
        groups = groups_of(self._intake.store, self._ours)
        known = {group.key for group in groups}
        for key, request in list(self._requests.items()):
            if request.ours and (key not in known or self._served(request)):
                await self._remove(request, "its pods have their devices, or are gone")
            elif request.ours and request.ended:
                self._since[key] = self._clock()
                await self._remove(request, f"the autoscaler ended it: {request.ended}")
            elif request.ours and not all(claim in self._intake.store.claims for claim in request.claims):
                await self._remove(request, "claims that it names are gone")
        now = self._clock()
        self._since = {key: self._since.get(key, now) for key in known if key not in self._requests}
        due = [one for one in groups if now - self._since.get(one.key, now) >= self._patience]
        free = MOST - sum(one.ours for one in self._requests.values())
        if not due or free <= 0:
            return
        store, nodes = self._intake.store, self._intake.nodes
        forked, groups_fork = Forked.fork_of(store), self._intake.groups.fork()
        question = NodesQuestion(due, forked, nodes.fork(), groups_fork, tuple(store.slices))
        needed = await self._thread.run(lambda wanted: self._size(question, wanted))
        for group in [one for one in due if one.key in needed][:free]:
            if self._leads.is_set():
                await self._request(group, *needed[group.key])

    def _served(self, request: ProvisioningRequest) -> bool:
        """Whether all pods that it names have their devices. Others of the group may wait for a request."""
        claims = [self._intake.store.claims.get(claim) for claim in request.claims]
        return bool(claims) and all(one is not None and one.allocation is not None for one in claims)

    async def _request(self, group: Group, count: int, shapes: tuple[str, ...]) -> None:
        """Make the templates, then the request. What exists already is of an earlier attempt."""
        self._intake.pause.check()
        try:
            pod = await self._client.get(POD, group.pod.key)
        except Gone:
            return
        sets = group.last(count)
        for name, pods in sets.items():
            with suppress(Conflict):
                await self._client.create(POD_TEMPLATE, pod_template(name, pod, pods[0].claim_names()))
        counts = {name: len(pods) for name, pods in sets.items()}
        claims = dict.fromkeys(claim.name for pods in sets.values() for claim in claims_of(pods[0]))
        request = provisioning_request(
            group.key.name, pod, class_name=self._class, counts=counts, claims=claims, shapes=shapes
        )
        try:
            await self._client.create(PROVISIONING_REQUEST, request)
        except Conflict:
            return
        self._since.pop(group.key, None)
        self._report(NodesRequested(group.key, group.pod.key, sum(counts.values()), shapes))

    async def _remove(self, request: ProvisioningRequest, why: str) -> None:
        """Remove the request first: nobody looks at the templates without it."""
        self._intake.pause.check()
        with suppress(Gone):
            await self._client.delete(PROVISIONING_REQUEST, request.key)
        for template in request.templates:
            with suppress(Gone):
                await self._client.delete(POD_TEMPLATE, template)
        self._requests.pop(request.key, None)
        self._report(NodesNotRequested(request.key, why))
