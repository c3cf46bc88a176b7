"""Takes in changes, updates the store, and queues the units that may get another answer now."""

import asyncio
from collections.abc import Container, Iterable
from dataclasses import replace

import structlog

from reconciler.aio.queue import Queue
from reconciler.allocation.placement import Place, Placement, place
from reconciler.api.objects.changes import Change, Changed, Listed, Notice, Refused, Replaced
from reconciler.api.objects.claims import FINALIZER, ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import GangKey
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.plan import Plan
from reconciler.api.objects.pods import claims_of
from reconciler.api.objects.storage import STORAGE
from reconciler.cluster.kinds import ON_DEMAND
from reconciler.cluster.pause_reasons import PauseReasons
from reconciler.control.audit.auditor import Audit
from reconciler.control.audit.losing_claim import written_by_us
from reconciler.control.audit.reclaimed import ReclaimedByScheduler
from reconciler.control.decisions.decisions import Report
from reconciler.control.gangs.roster import GangRoster
from reconciler.control.nominating import Nominating
from reconciler.control.ownership import Ownership
from reconciler.control.queueing.pause import Pause
from reconciler.control.queueing.room_charges import Charges, hosted
from reconciler.control.queueing.units import Kind, Roster, Unit, gang_unit
from reconciler.control.queueing.waiting import Waiting
from reconciler.ha.shards.filtering import within
from reconciler.state.delta import Delta
from reconciler.state.devices.pools.naming import Naming
from reconciler.state.nodes.table import Hosted, Nodes
from reconciler.state.pods.groups import PodGroups
from reconciler.state.store import Store
from reconciler.state.volumes.objects import claims_named

log = structlog.get_logger()

_GONE: Place = (0, "", "", "", "")
"""The place of a deleted unit: first, since its last reconcile is short and only cleans up."""


WATCH_PATIENCE = 1.0
"""Seconds for which gates are kept because the watch of claims is behind"""
NOTHING_OWNED = Ownership()
"""For callers that take in changes and allocate nothing"""


class Intake:
    """The only place that changes the store. Nothing here awaits, so each change is atomic."""

    def __init__(
        self,
        store: Store,
        queue: Queue[Unit],
        kinds: Iterable[str],
        report: Report,
        *,
        ours: Ownership = NOTHING_OWNED,
        reasons: PauseReasons | None = None,
        withdrawing: Container[str] = frozenset(),
        volumes: bool = True,
    ) -> None:
        """`kinds` must be listed before anything is decided; `reasons` say why writes are paused;
        `withdrawing` has the uids of claims whose allocation this process is withdrawing; `volumes` says
        whether volumes are considered.
        """
        self._ours = ours
        self.store = store
        self.queue = queue
        self.roster = Roster()
        self.gangs = GangRoster()
        self.groups = PodGroups()
        self.wanted: dict[str, asyncio.Event] = {kind: asyncio.Event() for kind in ON_DEMAND}
        """Kinds that are listed on demand; set when a pod needs them"""
        self.nodes = Nodes(on_wanted=lambda kind: self.wanted[kind].set(), volumes=volumes)
        self._with_volumes: dict[ObjectKey, None] = {}
        """Pods without a node that name claims of volumes"""
        self.placement = Placement(self.nodes, supposed=False)
        self.waiting = Waiting()
        self.listed = asyncio.Event()
        """Set when every kind was listed once: all allocations are known."""
        self.unlisted = set(kinds)
        """Kinds that are not listed yet"""
        self.pause = Pause(PauseReasons() if reasons is None else reasons, report, self.put)
        self._charges = Charges(store, self.roster, self.nodes)
        self.changed = asyncio.Event()
        """Set when devices or their holders changed. The auditor clears it"""
        self.reclaimed = ReclaimedByScheduler(store, self.roster, self.placement, report, withdrawing)
        self.audit = Audit(store, report)
        self.nominating = Nominating(store, self.nodes, self.gangs, report, self._wake_for_room)
        self._naming = Naming()
        self._shown = 0
        """The newest version that the watch of claims has shown"""
        self._unshown: dict[Unit, tuple[int, float]] = {}
        """Units that wait until it shows a version, and until when"""
        self._refused: dict[tuple[str, ObjectKey], str] = {}

    @property
    def held_twice(self) -> int:
        """Devices that several claims hold although one needs it alone."""
        return self.audit.doubles

    def take(self, change: Notice) -> None:
        """Apply a change to the store. The sink of every watch."""
        if isinstance(change, Listed):
            self._listed(change.kind)
            return
        change = self._naming.within(within(change, self._ours.shard))
        self._log_refused(change)
        if change.kind in STORAGE:
            self._take_storage(change)
            return
        unchanged = isinstance(change, Changed) and self._is_unchanged(change.object)
        for thing in _objects(change):
            self.reclaimed.note(thing)
            if isinstance(thing, ResourceClaim):
                self.audit.reached(thing.metadata.resource_version)
                self.shown(thing.metadata.resource_version)
        delta = self.store.apply(change)
        if self.nodes.note(change):
            delta |= Delta(supply=True)
        for gang in self.groups.note(change):
            self._group(gang)
        self.dispatch(replace(delta, claims=frozenset()) if unchanged else delta)
        if delta.classes and not self._ours.shard.whole:  # classes decide the shard of a claim
            for key in [key for key, claim in self.store.claims.items() if claim.allocation is None]:
                self._claim(key)
        if isinstance(change, Replaced):
            self._listed(change.kind)

    def _take_storage(self, change: Change) -> None:
        """Apply a change of a storage object. It concerns pods with volumes only; the store has none."""
        if self.nodes.note(change):
            self.queue.wake([Unit(Kind.POD, key) for key in self._with_volumes])
            self.queue.wake([gang_unit(gang) for gang in self.gangs.of(self._with_volumes)])
        if isinstance(change, Replaced):
            self._listed(change.kind)

    def _listed(self, kind: str) -> None:
        """A kind was listed; perhaps all are now."""
        self.unlisted.discard(kind)
        if not self.unlisted:
            self.listed.set()
        if self.nodes.on_demand.listed(kind):
            self._wake_gated()

    def cannot_list(self, kind: str, why: str) -> None:
        """A kind that is listed on demand cannot be listed."""
        if self.nodes.on_demand.failed(kind, why):
            self._wake_gated()

    def not_served(self, kind: str) -> None:
        """A kind that is listed on demand does not exist on this server."""
        if self.nodes.on_demand.unserved(kind):
            self._wake_gated()

    def _wake_gated(self) -> None:
        """Requeue the pods that may wait for a listing. Listings on demand are rare."""
        for key, pod in self.store.pods.items():
            if pod.gated:
                self.put(Unit(Kind.POD, key))
                self._gangs([key])

    def _group(self, gang: GangKey) -> None:
        """Requeue a gang whose PodGroup changed, and its pods: it may be no gang any more."""
        for key in self.gangs.members(gang):
            self.put(Unit(Kind.POD, key))
        if self.gangs.waits(gang):
            self.put(gang_unit(gang))

    def _gangs(self, pods: Iterable[ObjectKey]) -> None:
        """Requeue the gangs of pods that wait."""
        for gang in self.gangs.of(pods):
            self.put(gang_unit(gang))

    def observe(self, claim: ResourceClaim) -> None:
        """Take in a claim that a request returned, unless the watch has seen it deleted or recreated."""
        known = self.store.claims.get(claim.key)
        if known is not None and known.metadata.uid == claim.metadata.uid:
            self.dispatch(self.store.apply(Changed("ResourceClaim", claim)))

    def observe_pod(self, pod: Pod) -> None:
        """Take in a pod that a request returned, unless the watch has seen it deleted or recreated."""
        known = self.store.pods.get(pod.key)
        if known is not None and known.metadata.uid == pod.metadata.uid:
            self.dispatch(self.store.apply(Changed("Pod", pod)))

    def holds(self, key: ObjectKey, uid: str, version: str) -> bool:
        """Whether the store has a claim in this version or a later one."""
        known = self.store.claims.get(key)
        if known is None or known.metadata.uid != uid:
            return False
        ours = known.metadata.resource_version
        return version == ours or (ours.isdecimal() and version.isdecimal() and int(version) <= int(ours))

    def shown(self, version: str) -> None:
        """The watch of claims has shown a version, perhaps in an event that says nothing new."""
        if version.isdecimal() and int(version) > self._shown:
            self._shown = int(version)
            for unit in [unit for unit, (until, _) in self._unshown.items() if until <= self._shown]:
                del self._unshown[unit]
                self.put(unit)

    def awaits_watch(self, unit: Unit, claims: Iterable[ResourceClaim], now: float) -> bool:
        """Whether a unit waits until the watch shows these versions of claims, so that kube-scheduler may
        know them (SCHED-11).

        It is requeued then, at the latest after `WATCH_PATIENCE`; `now` is by the clock of the loop.
        """
        versions = (claim.metadata.resource_version for claim in claims)
        newest = max((int(version) for version in versions if version.isdecimal()), default=0)
        if newest <= self._shown:
            return False
        version, until = self._unshown.get(unit, (0, 0.0))
        if version != newest:
            until = now + WATCH_PATIENCE
            self._unshown[unit] = newest, until
        if until <= now:
            del self._unshown[unit]
            return False
        self.put(unit, after=until - now)
        return True

    def catch_up(self, claim: ResourceClaim) -> None:
        """Take in a version of a claim whose watch event was skipped; see `cluster.echoes`."""
        if self.holds(claim.key, claim.metadata.uid, "0"):
            self.take(Changed("ResourceClaim", claim))

    def assume(self, plan: Plan) -> None:
        """Count a decided plan as held, and its pods as bound to its node, before it is written."""
        self.store.assume(plan)
        self._wake(self._charges.claims([plan.claim]))

    def forget(self, plan: Plan) -> None:
        """Drop an assumed plan. Wakes units that wait for its devices, or for the room of its pod.

        Does not wake units that share the claim: they are requeued with the unit that failed.
        """
        self.dispatch(self.store.forget(plan))
        self._wake(self._charges.claims([plan.claim]))

    def assume_pod(self, key: ObjectKey, node: str) -> None:
        """Count a pod without claims on its decided node, before that is written."""
        self._wake(self._charges.assume(key, node))

    def forget_pod(self, key: ObjectKey) -> None:
        """Undo `assume_pod`, and wake units that wait for the room."""
        self._wake(self._charges.forget(key))

    def dispatch(self, delta: Delta) -> None:
        """Queue the units that may get another answer now."""
        for key in delta.pods:
            self._pod(key)
        changed = [self._charges.pod(key) for key in delta.pods]
        self._wake(hosted([*changed, self._charges.claims(delta.claims)]))
        for key in delta.claims:
            self._claim(key)
        raced = self.audit.check(delta.devices) | self.audit.sharing(delta.claims)
        for key in raced:
            self.put(Unit(Kind.CLAIM, key))  # one of them may have to be freed
        if delta.devices or delta.supply:
            self.changed.set()
        self.queue.wake(self.waiting.woken_by(delta))
        self.nominating.follow(delta)

    def _wake_for_room(self, delta: Delta, roomier: bool) -> None:
        """Wake the units that room was kept from."""
        self.queue.wake(self.waiting.woken_by(delta))
        self._wake(Hosted(roomier, counted=False))

    def _wake(self, hosted: Hosted) -> None:
        """Wake the units that other pods kept from nodes."""
        if hosted.roomier:
            self.queue.wake(self.waiting.crowded())
        if hosted.counted:
            self.queue.wake(self.waiting.awaiting_pods())
        if hosted.settled:
            self.queue.wake(self.waiting.awaiting_binding())

    def put(self, unit: Unit, *, after: float = 0.0) -> None:
        """Queue a unit at its place in the order."""
        self.queue.put(unit, priority=self._place(unit), after=after)

    def _place(self, unit: Unit) -> Place:
        if unit.kind is Kind.GANG:
            return min(map(place, self.gated(unit.gang)), default=_GONE)
        things = self.store.pods if unit.kind is Kind.POD else self.store.claims
        thing = things.get(unit.key)
        return place(thing) if thing is not None else _GONE

    def claims(self, unit: Unit) -> tuple[ObjectKey, ...]:
        """The claims that a unit decides about, as far as known."""
        if unit.kind is Kind.CLAIM:
            return (unit.key,)
        if unit.kind is Kind.GANG:
            return tuple(dict.fromkeys(key for pod in self.gated(unit.gang) for key in claims_of(pod)))
        pod = self.store.pods.get(unit.key)
        return claims_of(pod) if pod is not None else ()

    def gated(self, gang: GangKey) -> list[Pod]:
        """The gated pods of a gang."""
        # A listing may have dropped several of them, of which the roster learns one by one.
        pods = (self.store.pods.get(key) for key in self.gangs.members(gang))
        return [pod for pod in pods if pod is not None and pod.gated]

    def decides(self, unit: Unit, key: ObjectKey) -> bool:
        """Whether a unit still decides about a claim."""
        if unit.kind is Kind.GANG:
            return any(gang_unit(gang) == unit for gang in self.gangs.of(self.roster.users(key)))
        return unit in self.roster.units(key)

    def sharing(self, unit: Unit, before: Iterable[ObjectKey]) -> list[Unit]:
        """The other units that decide about one of its claims.

        `before` are the claims that it had when its reconcile began: its pod may be gone.
        """
        keys = {*before, *self.claims(unit)}
        found = {other for key in keys for other in self.roster.units(key)}
        found |= {gang_unit(gang) for key in keys for gang in self.gangs.of(self.roster.users(key))}
        return sorted(found - {unit})

    def _is_unchanged(self, thing: ApiObject) -> bool:
        """Whether a claim changed in no relevant field: most such events come from our own writes."""
        known = self.store.claims.get(thing.key) if isinstance(thing, ResourceClaim) else None
        if known is None or ("ResourceClaim", thing.key) in self.store.refused:
            return False
        return isinstance(thing, ResourceClaim) and _relevant(known) == _relevant(thing)

    def _pod(self, key: ObjectKey) -> None:
        pod = self.store.pods.get(key)
        self._note_volumes(key, pod)
        for claim in self.roster.note(key, pod):
            self._claim(claim)  # it may have no other pod now
        for gang in self.gangs.note(key, pod):
            self.put(gang_unit(gang))
        # A deleted pod is reconciled once more, to be forgotten.
        if pod is None or pod.gated or pod.spec.resource_claims:
            self.put(Unit(Kind.POD, key))

    def _note_volumes(self, key: ObjectKey, pod: Pod | None) -> None:
        """Note a pod that waits for its volumes, and log once that they are not considered if so."""
        if pod is None or pod.spec.node_name or not any(True for _ in claims_named(pod)):
            self._with_volumes.pop(key, None)
        elif key not in self._with_volumes:
            self._with_volumes[key] = None
            if pod.gated and not self.nodes.volumes.considered:
                log.info("volumes not considered", pod=str(key))

    def _claim(self, key: ObjectKey) -> None:
        claim = self.store.claims.get(key)
        # Most events of a claim are its allocation or reservation, which need no action on the claim alone.
        if claim is None or claim.deleting or claim.allocation is None or self._left_over(claim):
            self.put(Unit(Kind.CLAIM, key))
        users = self.roster.users(key)
        for pod in users:
            self.put(Unit(Kind.POD, pod))
        self._gangs(users)

    def _left_over(self, claim: ResourceClaim) -> bool:
        """Whether we allocated a claim for pods that are all gone."""
        used = claim.status.reserved_for or self.roster.users(claim.key)
        return not used and not self._ours.claims(claim) and written_by_us(claim)

    def _log_refused(self, change: Change) -> None:
        """Log an object that cannot be read once for each reason."""
        match change:
            case Refused():
                self._refuse(change)
            case Replaced(refused=refused):
                for one in refused:
                    self._refuse(one)
            case Changed(kind=kind, object=thing):
                self._refused.pop((kind, thing.key), None)

    def _refuse(self, refused: Refused) -> None:
        if self._refused.get((refused.kind, refused.key)) != refused.reason:
            self._refused[refused.kind, refused.key] = refused.reason
            log.warning(
                "invalid object ignored", kind=refused.kind, name=str(refused.key), reason=refused.reason
            )


def _objects(change: Change) -> Iterable[ApiObject]:
    match change:
        case Changed(object=thing):
            return (thing,)
        case Replaced(objects=objects):
            return objects
    return ()


def _relevant(claim: ResourceClaim) -> tuple[object, ...]:
    metadata = claim.metadata
    return (
        metadata.uid,
        metadata.labels,
        metadata.owner_references,
        metadata.deletion_timestamp,
        claim.deleting and FINALIZER in metadata.finalizers,
        claim.allocation,
        claim.status.reserved_for,
    )
