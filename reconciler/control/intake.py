"""Takes in changes, updates the store, and queues the units that may get another answer now."""

import asyncio
from collections.abc import Callable, Container, Iterable, Mapping

import structlog
from msgspec.structs import replace

from reconciler.aio.queue import Queue
from reconciler.allocation.placement.placing import Placement
from reconciler.api.objects import changes
from reconciler.api.objects.claims import FINALIZER, ResourceClaim
from reconciler.api.objects.core import Pod, is_report
from reconciler.api.objects.meta import ApiObject, ObjectKey, is_same_version_aside
from reconciler.api.objects.plan import Plan
from reconciler.api.objects.storage import STORAGE
from reconciler.cluster.kinds import ON_DEMAND
from reconciler.cluster.transport import PauseReasons
from reconciler.control.audit import ReclaimedByScheduler
from reconciler.control.decisions.allocating import Deleted
from reconciler.control.decisions.declaration import Report
from reconciler.control.dispatching import Dispatcher
from reconciler.control.early_names import EarlyNames
from reconciler.control.inputs import Assumed, Forgotten, PodAssumed, PodForgotten, PodReleased
from reconciler.control.ownership import Ownership
from reconciler.control.pausing import Pause
from reconciler.control.special_claims import HandOverTerms
from reconciler.control.units import Unit
from reconciler.control.waiting import WatchLag
from reconciler.ha.shard import within_shard
from reconciler.state.devices.naming import Naming
from reconciler.state.nodes.table import Nodes
from reconciler.state.pods.groups import PodGroups
from reconciler.state.store import SUPPLY, Delta, Store

log = structlog.get_logger()


Journal = Callable[[changes.Recorded, "Intake"], None]
"""Gets what is about to change the state, and the state before it"""
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
        journal: Journal | None = None,
        terms: HandOverTerms | None = None,
    ) -> None:
        """`kinds` must be listed before anything is decided; `reasons` say why writes are paused;
        `withdrawing` has the uids of claims whose allocation this process is withdrawing; `volumes` says
        whether volumes are considered; `terms` are those of `SpecialClaims`.
        """
        self._journal = journal
        self._followers: list[Callable[[changes.Change], None]] = []
        self._ours = ours
        self._report = report
        self.store = store
        self.groups = PodGroups(store.rules.gates)
        self.wanted: dict[str, asyncio.Event] = {kind: asyncio.Event() for kind in ON_DEMAND}
        """Kinds that are listed on demand; set when a pod needs them"""
        self.nodes = Nodes(on_wanted=lambda kind: self.wanted[kind].set(), volumes=volumes)
        self._dispatcher = dispatcher = Dispatcher(
            *(store, self.nodes, self.groups, queue, ours, report, self.note, terms)
        )
        self.queue = queue
        self.roster = dispatcher.roster
        self.gangs = dispatcher.gangs
        self.workloads = dispatcher.workloads
        self.units = dispatcher.units
        self.waiting = dispatcher.waiting
        self.audit = dispatcher.audit
        self.nominating = dispatcher.nominating
        self.special = dispatcher.special
        self.changed = dispatcher.changed
        """Set when devices or their holders changed. The auditor clears it"""
        self.put = dispatcher.put
        self.placement = Placement(self.nodes, supposed=False)
        self.listed = asyncio.Event()
        """Set when every kind was listed once: all allocations are known."""
        self.unlisted = set(kinds)
        """Kinds that are not listed yet"""
        self.pause = Pause(PauseReasons() if reasons is None else reasons, report, self.put)
        self.reclaimed = ReclaimedByScheduler(store, self.roster, self.placement, report, withdrawing)
        self.lag = WatchLag(self.put)
        self._naming = Naming()
        self.early = EarlyNames()

    def take(self, change: changes.Notice) -> None:
        """Apply a change to the store. The sink of every watch."""
        if isinstance(change, changes.Listed):
            self._listed(change.kind)
            return
        if self._take_report(change):
            return
        change = self.early.within(self._naming.within(within_shard(change, self._ours.shard)))
        self._log_refused(change)
        unchanged = isinstance(change, changes.Changed) and self._is_unchanged(change.object)
        self._note_claims(change)
        self.apply(change, unchanged=unchanged)
        for again in self.early.note(change, self.store.pods):
            self.take(again)
        if change.kind == "ResourceSlice":
            for again in self._naming.again():
                self.take(again)
        if isinstance(change, changes.Replaced):
            self._listed(change.kind)

    def apply(self, change: changes.Change, *, unchanged: bool = False) -> None:
        """Apply a change as it is to all that decisions depend on, and queue the units that it concerns.

        `unchanged`: no field is different that a unit could need another turn for.
        """
        delta = self._apply(change)
        placed = self.nodes.note(change)
        if change.kind in STORAGE:
            if placed:
                self._dispatcher.wake_with_volumes()
            return
        for gang in self.groups.note(change):
            self._dispatcher.requeue_gang(gang)
        if unchanged:
            delta = replace(delta, claims=frozenset(), pods=frozenset())
        self._dispatcher.dispatch(delta | SUPPLY if placed else delta)
        if delta.classes and not self._ours.shard.whole:  # classes decide the shard of a claim
            for key in [key for key, claim in self.store.claims.items() if claim.allocation is None]:
                self._dispatcher.requeue_claim(key)

    def _apply(self, change: changes.Change) -> Delta:
        self.note(change)
        delta = self.store.apply(change)
        for follow in self._followers:
            follow(change)
        return delta

    def follow(self, take: Callable[[changes.Change], None]) -> None:
        """Have a part of a plugin take every change from now on, after the store."""
        self._followers.append(take)

    @property
    def recorded(self) -> bool:
        """Whether there is a journal."""
        return self._journal is not None

    def note(self, what: changes.Recorded) -> None:
        """Tell the journal, if there is one, what is about to change, or was decided."""
        if self._journal is not None:
            self._journal(what, self)

    def _take_report(self, change: changes.Change) -> bool:
        """Apply what a kubelet reports of a pod; see `is_report`. Returns False for any other change.

        These are most events of a cluster in which little happens. Nothing but the store and the room on
        nodes depends on them.
        """
        if not (isinstance(change, changes.Changed) and isinstance(change.object, Pod)):
            return False
        pod = change.object
        known = self.store.pods.get(pod.key)
        if known is None or not is_report(known, pod):
            return False
        delta = self._apply(change)
        if not (known.status is pod.status or known.status == pod.status):
            self._dispatcher.reported(pod.key, delta)
        return True

    def _log_refused(self, change: changes.Change) -> None:
        """Log an object that cannot be read once for each reason. The store knows the last one."""
        refused = (change,) if isinstance(change, changes.Refused) else ()
        for one in change.refused if isinstance(change, changes.Replaced) else refused:
            if self.store.refused.get((one.kind, one.key)) != one.reason:
                log.warning("invalid object ignored", kind=one.kind, name=str(one.key), reason=one.reason)

    def _note_claims(self, change: changes.Change) -> None:
        """Take note of claims and their versions before the store changes."""
        for thing in _objects(change) if change.kind == "ResourceClaim" else ():
            if isinstance(thing, ResourceClaim):
                self.reclaimed.note(thing)
                self.audit.reached(thing.metadata.resource_version)
                self.lag.shown(thing.metadata.resource_version)
        for gone in self._deleted(change):
            self.reclaimed.forget(gone.key)
            if self._ours.lost(gone):
                held = gone.allocation.devices.results if gone.allocation else ()
                self._report(Deleted(gone.key, tuple(device.id for device in held)))

    def _deleted(self, change: changes.Change) -> Iterable[ResourceClaim]:
        """The known claims that do not exist any more. A listing shows those that the watch missed."""
        known = self.store.claims
        match change:
            case changes.Removed(kind="ResourceClaim", key=key) if key in known:
                return (known[key],)
            case changes.Replaced(kind="ResourceClaim", objects=objects, refused=refused):
                uids = {one.key: one.metadata.uid for one in objects}
                uids |= {one.key: known[one.key].metadata.uid for one in refused if one.key in known}
                return [claim for key, claim in known.items() if uids.get(key) != claim.metadata.uid]
        return ()

    def _listed(self, kind: str) -> None:
        """A kind was listed; perhaps all are now."""
        self.unlisted.discard(kind)
        if not self.unlisted:
            self.listed.set()
        if self.nodes.on_demand.listed(kind):
            self._dispatcher.requeue_gated()

    def cannot_list(self, kind: str, why: str) -> None:
        """A kind that is listed on demand cannot be listed."""
        if self.nodes.on_demand.failed(kind, why):
            self._dispatcher.requeue_gated()

    def not_served(self, kind: str) -> None:
        """A kind that is listed on demand does not exist on this server."""
        if self.nodes.on_demand.unserved(kind):
            self._dispatcher.requeue_gated()

    def observe(self, claim: ResourceClaim) -> None:
        """Take in a claim that a request returned, unless the watch has seen it deleted or recreated."""
        known = self.store.claims.get(claim.key)
        if known is not None and known.metadata.uid == claim.metadata.uid:
            self.apply(changes.Changed("ResourceClaim", claim))

    def observe_pod(self, pod: Pod) -> None:
        """Take in a pod that a request returned, unless the watch has seen it deleted or recreated."""
        known = self.store.pods.get(pod.key)
        if known is not None and known.metadata.uid == pod.metadata.uid:
            self.apply(self.early.within(changes.Changed("Pod", pod)))

    def is_gated(self, claim: ObjectKey) -> bool:
        """Whether a gated pod names a claim."""
        pods = (self.store.pods.get(key) for key in self.roster.users(claim))
        return any(pod is not None and pod.gated for pod in pods)

    def skips(self, key: ObjectKey, uid: str, version: str) -> bool:
        """Whether a watch event tells nothing new: the store has the claim in this version or a later one,
        nearly always from the response to our own write.
        """
        known = self.store.claims.get(key)
        if known is None or known.metadata.uid != uid:
            return False
        ours = known.metadata.resource_version
        if version == ours or (ours.isdecimal() and version.isdecimal() and int(version) <= int(ours)):
            self.lag.shown(version)
            return True
        return False

    def assume(self, plan: Plan) -> None:
        """Count a decided plan as held, and its pods as bound to its node, before it is written."""
        self.note(Assumed(plan))
        self.store.assume(plan)
        if self.roster.users(plan.claim):
            self._dispatcher.wake(self._dispatcher.charges.claims([plan.claim]))

    def forget(self, plan: Plan) -> None:
        """Drop an assumed plan. Wakes units that wait for its devices, or for the room of its pod.

        Does not wake units that share the claim: they are requeued with the unit that failed.
        """
        if self.store.assumed(plan.uid) is None:  # most plans: a version with the allocation is known
            return
        self.note(Forgotten(plan))
        self._dispatcher.dispatch(self.store.forget(plan))
        self._dispatcher.wake(self._dispatcher.charges.claims([plan.claim]))

    def resolved(self, plan: Plan) -> None:
        """Drop a plan once it is known whether it was written. Queues the units that left its claim to the
        turn that found out: this may not be the turn that decides about it.
        """
        self.forget(plan)
        self._dispatcher.requeue_claim(plan.claim)

    def assume_pod(self, key: ObjectKey, node: str) -> None:
        """Count a pod without claims on its decided node, before that is written."""
        self.note(PodAssumed(key, node))
        self._dispatcher.wake(self._dispatcher.charges.assume(key, node))

    def forget_pod(self, key: ObjectKey) -> None:
        """Undo `assume_pod`, and wake units that wait for the room."""
        self.note(PodForgotten(key))
        self._dispatcher.wake(self._dispatcher.charges.forget(key))

    def release_pod(self, key: ObjectKey) -> None:
        """The gate of a pod is about to be removed: from now on kube-scheduler may bind it."""
        self.note(PodReleased(key))
        self.nodes.residents.release(key)

    @property
    def assumed_pods(self) -> Mapping[ObjectKey, str]:
        """The decided nodes of pods, while not known to be written."""
        return self._dispatcher.charges.assumed

    def _is_unchanged(self, thing: ApiObject) -> bool:
        """Whether a claim or a pod changed in no relevant field.

        Most events of claims come from our own writes, most of pods are reports of kubelets.
        """
        if isinstance(thing, ResourceClaim):
            claim = self.store.claims.get(thing.key)
            if claim is None or ("ResourceClaim", thing.key) in self.store.refused:
                return False
            return _relevant(claim) == _relevant(thing)
        if isinstance(thing, Pod) and not thing.gated:  # that of a gated pod may be what its unit waits for
            pod = self.store.pods.get(thing.key)
            return pod is not None and _is_same(pod, thing) and ("Pod", thing.key) not in self.store.refused
        return False


def _objects(change: changes.Change) -> Iterable[ApiObject]:
    match change:
        case changes.Changed(object=thing):
            return (thing,)
        case changes.Replaced(objects=objects):
            return objects
    return ()


def _is_same(one: Pod, other: Pod) -> bool:
    """Whether two versions of a pod differ in the version only. Equal parts of both are often one object."""
    return (
        (one.spec is other.spec or one.spec == other.spec)
        and (one.status is other.status or one.status == other.status)
        and is_same_version_aside(one.metadata, other.metadata)
    )


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
