"""Gated pods that wait for devices, in groups of equal ones: each group is one request for nodes."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256

import structlog
from msgspec import Struct, field

from reconciler.aio.tasks import Closed, ShouldContinue, WorkerThread
from reconciler.allocation.dra.budget import Unfinished
from reconciler.allocation.placement.order import queue_key
from reconciler.analysis.sizing.demand import Item
from reconciler.analysis.sizing.shapes import distinct_shapes
from reconciler.analysis.sizing.sizing import size
from reconciler.analysis.whatif.question import Unit
from reconciler.analysis.world import World
from reconciler.api.objects.changes import Notice, Replaced, versions
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod, claims_of, controller_of, is_live
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.slices import ResourceSlice
from reconciler.app.control import Control, Host, Running, watch_job
from reconciler.app.from_settings import Job
from reconciler.cluster.client import Client
from reconciler.cluster.discovery import Right, missing_rights, serves
from reconciler.cluster.kinds import POD, Resource
from reconciler.control.decisions.declaration import Report
from reconciler.control.decisions.every import NodesNotRequested, NodesRequested
from reconciler.control.held_room import HeldRoomKeeper
from reconciler.control.intake import Intake
from reconciler.control.loop import Failures
from reconciler.control.ownership import Ownership
from reconciler.errors import Conflict, Gone, Paused, ReconcilerError, Rejected
from reconciler.ha.shard import Side
from reconciler.plugins.provisioning import objects
from reconciler.state.nodes.table import Nodes
from reconciler.state.pods.groups import PodGroups
from reconciler.state.store import Store
from reconciler.state.trial import Fork, Forked

_NAME = 44
"""Characters that a name takes from what it is for"""


class Group(Struct, frozen=True):
    """Equal pods of one maker that have no devices yet."""

    key: ObjectKey
    """The name of the request for them; the same after a restart"""
    pods: tuple[Pod, ...]
    """In the order in which they get devices"""
    claims: tuple[ResourceClaim, ...]
    """Of the first pod, limited to devices that are ours"""

    @property
    def pod(self) -> Pod:
        """The first of them."""
        return self.pods[0]

    @property
    def count(self) -> int:
        """How many pods wait."""
        return len(self.pods)

    def last(self, count: int) -> dict[str, tuple[Pod, ...]]:
        """Of the `count` pods that get devices last, by the name of the template for those that name the same
        claims: the first, in as many templates as one request may have.
        """
        found: dict[str, tuple[Pod, ...]] = {}
        for pod in self.pods[-count:]:
            name = _name(self.key.name, *(claim.name for claim in claims_of(pod)))
            if name in found or len(found) < objects.MOST_SETS:
                found[name] = (*found.get(name, ()), pod)
        return found


def groups_of(store: Store, ours: Ownership) -> tuple[Group, ...]:
    """All groups, by name. Pods whose claims are not all there, not all ours to serve, or partly allocated,
    are left out.
    """
    found: dict[ObjectKey, list[Pod]] = {}
    for pod in store.pods.values():
        if pod.gated and is_live(pod) and not pod.spec.node_name and _waits(pod, store, ours):
            found.setdefault(_key(pod), []).append(pod)
    return tuple(_group(key, pods, store, ours) for key, pods in sorted(found.items()))


def _group(key: ObjectKey, pods: Iterable[Pod], store: Store, ours: Ownership) -> Group:
    listed = tuple(sorted(pods, key=queue_key))
    claims = tuple(ours.restricted(store.claims[one]) for one in claims_of(listed[0]))
    return Group(key, listed, claims)


def _waits(pod: Pod, store: Store, ours: Ownership) -> bool:
    claims = [store.claims.get(key) for key in claims_of(pod)]
    return bool(claims) and all(
        one is not None
        and one.allocation is None
        and store.assumed(one.metadata.uid) is None
        and ours.foreign_class(one) is None
        and ours.side(one, lambda: store.snapshot().classes).side is Side.OURS
        for one in claims
    )


def _key(pod: Pod) -> ObjectKey:
    maker = controller_of(pod)
    name, uid = (maker.name, maker.uid) if maker is not None else (pod.key.name, pod.metadata.uid)
    spec = pod.spec.model_dump_json(exclude={"hostname"}).encode()
    return ObjectKey(pod.key.namespace, _name(f"dra-{name}", uid, spec.decode()))


def _name(start: str, *parts: str) -> str:
    """A name that differs where one of the parts does."""
    mark = sha256("\0".join((start, *parts)).encode()).hexdigest()[:10]
    return f"{start[:_NAME].rstrip('-.')}-{mark}"


log = structlog.get_logger()

PROVISIONING_REQUEST = Resource(
    "ProvisioningRequest", objects.GROUP, objects.VERSION, "provisioningrequests", namespaced=True
)
POD_TEMPLATE = Resource("PodTemplate", "", "v1", "podtemplates", namespaced=True)

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


class Provisioner(Struct, eq=False):
    """Looks at the pods that wait, in intervals: new nodes take minutes."""

    _intake: Intake
    _client: Client
    _ours: Ownership
    _size: Size
    """Answers which pods need nodes"""
    class_name: str
    patience: float
    """Seconds that pods must have waited"""
    leads: asyncio.Event
    clock: Callable[[], float]
    report: Report
    failures: Failures
    _requests: dict[ObjectKey, objects.ProvisioningRequest] = {}
    _listed: asyncio.Event = field(default_factory=asyncio.Event)
    _since: dict[ObjectKey, float] = {}
    """Group -> since when it waits without a request"""
    _thread: WorkerThread = field(default_factory=lambda: WorkerThread("sizing"))

    def take(self, change: Notice) -> None:
        """The sink of the watch of ProvisioningRequests."""
        for key, request in versions(change, objects.ProvisioningRequest, self._requests):
            self._requests.pop(key, None)
            if request is not None:
                self._requests[key] = request
        if isinstance(change, Replaced):
            self._listed.set()

    async def run(self) -> None:
        """Look until cancelled."""
        await self._intake.listed.wait()
        await self._listed.wait()
        try:
            while True:
                await self.leads.wait()
                with self.failures.contained("provisioning"):
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
                self._since[key] = self.clock()
                await self._remove(request, f"the autoscaler ended it: {request.ended}")
            elif request.ours and not all(claim in self._intake.store.claims for claim in request.claims):
                await self._remove(request, "claims that it names are gone")
        now = self.clock()
        self._since = {key: self._since.get(key, now) for key in known if key not in self._requests}
        due = [one for one in groups if now - self._since.get(one.key, now) >= self.patience]
        free = MOST - sum(one.ours for one in self._requests.values())
        if not due or free <= 0:
            return
        store, nodes = self._intake.store, self._intake.nodes
        forked, groups_fork = Forked.fork_of(store), self._intake.groups.fork()
        question = NodesQuestion(due, forked, nodes.fork(), groups_fork, store.supply.slices)
        needed = await self._thread.run(lambda wanted: self._size(question, wanted))
        for group in [one for one in due if one.key in needed][:free]:
            if self.leads.is_set():
                await self._request(group, *needed[group.key])

    def _served(self, request: objects.ProvisioningRequest) -> bool:
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
                await self._client.create(
                    POD_TEMPLATE, objects.pod_template(name, pod, pods[0].claim_names())
                )
        counts = {name: len(pods) for name, pods in sets.items()}
        claims = dict.fromkeys(claim.name for pods in sets.values() for claim in claims_of(pods[0]))
        request = objects.provisioning_request(
            group.key.name, pod, class_name=self.class_name, counts=counts, claims=claims, shapes=shapes
        )
        try:
            await self._client.create(PROVISIONING_REQUEST, request)
        except Conflict:
            return
        self._since.pop(group.key, None)
        self.report(NodesRequested(group.key, group.pod.key, sum(counts.values()), shapes))

    async def _remove(self, request: objects.ProvisioningRequest, why: str) -> None:
        """Remove the request first: nobody looks at the templates without it."""
        self._intake.pause.check()
        with suppress(Gone):
            await self._client.delete(PROVISIONING_REQUEST, request.key)
        for template in request.templates:
            with suppress(Gone):
                await self._client.delete(POD_TEMPLATE, template)
        self._requests.pop(request.key, None)
        self.report(NodesNotRequested(request.key, why))


RIGHTS = (
    *(Right(verb, "provisioningrequests", objects.GROUP) for verb in ("list", "watch", "create", "delete")),
    *(Right(verb, "podtemplates") for verb in ("create", "delete")),
)


async def check_provisioning(client: Client) -> None:
    """Raise Rejected if nodes cannot be requested."""
    if not await serves(client, PROVISIONING_REQUEST):
        raise Rejected(
            f"setting provisioning_requests: the server does not serve {objects.GROUP}/{objects.VERSION}: "
            "install the resource definition of ProvisioningRequests, or unset it"
        )
    lacking = await missing_rights(client, RIGHTS)
    if lacking:
        raise Rejected(
            "setting provisioning_requests needs rights that this account does not have: "
            f"{', '.join(map(str, lacking))}. Add deploy/components/provisioning, or set the value "
            "provisioningRequests of the chart"
        )


class ProvisioningRunning(Running):
    """The requests and their watch."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def jobs(self, core: Control, keeper: HeldRoomKeeper | None) -> list[Job]:  # noqa: ARG002
        host, client = self._host, core.connection.client
        settings = host.base.settings
        provisioner = Provisioner(
            core.intake,
            client,
            host.ours,
            _needed,
            class_name=settings.provisioning_requests,
            patience=settings.fixed.provisioning_patience_seconds,
            leads=core.fence.up,
            clock=host.base.clock,
            report=host.report,
            failures=core.failures,
        )
        return [
            watch_job("watch provisioning requests", client, PROVISIONING_REQUEST, provisioner.take),
            Job("provisioning", provisioner.run),
        ]


def _needed(question: NodesQuestion, _: ShouldContinue) -> Needed:
    """Which pods fit on no present node beside the others, and would fit on an empty one of a known shape."""
    world = World(question.fork.store(), question.nodes, question.pod_groups)
    items = [
        Item(Unit(str(group.key), group.claims, group.pod), group.count, number)
        for number, group in enumerate(question.groups)
    ]
    shapes = tuple(distinct_shapes(question.nodes.known, question.slices))
    found = size(items, shapes, world)
    return {
        group.key: (one.left, one.served_by)
        for group, one in zip(question.groups, found.items, strict=True)
        if one.left and one.served_by
    }
