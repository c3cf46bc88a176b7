"""Puts the units that may have a new answer into the queue, after each change of the state."""

import asyncio
from collections.abc import Callable, Iterable

import structlog

from reconciler.aio.queue import Queue
from reconciler.api.objects.changes import Recorded
from reconciler.api.objects.claims import ResourceClaim, is_ours
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import GangKey
from reconciler.api.objects.meta import ObjectKey
from reconciler.control.audit import Audit
from reconciler.control.charges import Charges, hosted
from reconciler.control.decisions.declaration import Report
from reconciler.control.nominating import Nominating
from reconciler.control.ownership import Ownership
from reconciler.control.special_claims import HandOverTerms, SpecialClaims
from reconciler.control.units import GangRoster, Kind, Roster, Unit, UnitLookup, WorkloadRoster, gang_unit
from reconciler.control.waiting import Waiting
from reconciler.state.nodes.table import HERE, Hosted, Nodes
from reconciler.state.pods.groups import PodGroups
from reconciler.state.store import Delta, Store
from reconciler.state.volumes.objects import claims_named

log = structlog.get_logger()


class Dispatcher:
    """Queues units, and keeps what tells which units a change concerns."""

    def __init__(
        self,
        store: Store,
        nodes: Nodes,
        groups: PodGroups,
        queue: Queue[Unit],
        ours: Ownership,
        report: Report,
        note: Callable[[Recorded], None],
        terms: HandOverTerms | None,
    ) -> None:
        self._store = store
        self._nodes = nodes
        self._ours = ours
        self.queue = queue
        self.roster = Roster()
        self.gangs = GangRoster(groups)
        self.workloads = WorkloadRoster()
        self.units = UnitLookup(store, self.roster, self.gangs, groups)
        self.waiting = Waiting()
        self.charges = Charges(store, self.roster, nodes)
        self.changed = asyncio.Event()
        """Set when devices or their holders changed. The auditor clears it"""
        self.audit = Audit(store, report)
        self.nominating = Nominating(store, nodes, self.gangs, report, self._wake_for_room, note)
        self.special = SpecialClaims(store, self.roster, self.nominating, terms)
        self._with_volumes: dict[ObjectKey, None] = {}
        """Pods without a node that name claims of volumes"""

    def put(self, unit: Unit, *, after: float = 0.0) -> None:
        """Queue a unit at its place in the order."""
        self.queue.put(unit, priority=self.units.place(unit), after=after)

    def dispatch(self, delta: Delta) -> None:
        """Queue the units that may get another answer now."""
        if delta.pods or delta.claims:
            self._pods_and_claims(delta)
        if delta.devices or not self.audit.is_quiet:
            for key in self.audit.check(delta.devices) | self.audit.sharing(delta.claims):
                self.put(Unit(Kind.CLAIM, key))  # one of them may have to be freed
        if delta.shares:
            self.wake(self.charges.claims(delta.shares))
        if delta.devices or delta.supply:
            self.changed.set()
        if woken := self.waiting.woken_by(delta):
            self.queue.wake(woken)
        self.special.note(delta)
        self.nominating.follow(delta)

    def reported(self, pod: ObjectKey, delta: Delta) -> None:
        """Do what `dispatch` does for a pod of which `is_report` holds, in a tenth of the time.

        Neither the pod nor its gang needs a turn: what decides about them did not change.
        """
        if delta.pods:
            self.wake(self.charges.pod(pod))

    def _pods_and_claims(self, delta: Delta) -> None:
        found = self.charges.claims(delta.claims) if not delta.pods else self._pods(delta)
        self.wake(found)
        for key in delta.claims:
            self.requeue_claim(key)

    def _pods(self, delta: Delta) -> Hosted:
        """Queue changed pods. Returns what the changes mean for pods that wait."""
        for key in delta.pods:
            self._pod(key)
        changed = [self.charges.pod(key) for key in delta.pods]
        return hosted([*changed, self.charges.claims(delta.claims)])

    def wake_with_volumes(self) -> None:
        """Wake the units whose pods name claims of volumes."""
        self.waiting.changed("volumes")
        self.queue.wake([Unit(Kind.POD, key) for key in self._with_volumes])
        self.queue.wake([gang_unit(gang) for gang in self.gangs.of(self._with_volumes)])

    def requeue_gated(self) -> None:
        """Requeue the pods that may wait for a listing. Listings on demand are rare."""
        for key, pod in self._store.pods.items():
            if pod.gated:
                self.put(Unit(Kind.POD, key))
                self._gangs([key])

    def requeue_gang(self, gang: GangKey) -> None:
        """Requeue a gang whose PodGroup changed, and its pods: it may be no gang any more."""
        for key in self.gangs.members(gang):
            self.put(Unit(Kind.POD, key))
        if self.gangs.waits(gang):
            self.put(gang_unit(gang))

    def wake(self, hosted: Hosted) -> None:
        """Wake the units that other pods kept from nodes."""
        if hosted is not HERE:
            self.queue.wake(self.waiting.woken_by_pods(hosted))

    def _wake_for_room(self, delta: Delta, roomier: bool) -> None:
        """Wake the units that room was kept from."""
        self.queue.wake(self.waiting.woken_by(delta))
        self.wake(Hosted(roomier, counted=False))

    def _pod(self, key: ObjectKey) -> None:
        pod = self._store.pods.get(key)
        self._note_volumes(key, pod)
        for claim in self.roster.note(key, pod):
            self.requeue_claim(claim)  # it may have no other pod now
        for gang in self.gangs.note(key, pod):
            self.put(gang_unit(gang))
        self.workloads.note(key, pod)
        # A deleted pod is reconciled once more, to be forgotten.
        if pod is None or pod.gated or pod.spec.resource_claims:
            self.put(Unit(Kind.POD, key))

    def _note_volumes(self, key: ObjectKey, pod: Pod | None) -> None:
        """Note a pod that waits for its volumes, and log once that they are not considered if so."""
        if pod is None or pod.spec.node_name or not any(True for _ in claims_named(pod)):
            self._with_volumes.pop(key, None)
        elif key not in self._with_volumes:
            self._with_volumes[key] = None
            if pod.gated and not self._nodes.volumes.considered:
                log.info("volumes not considered", pod=str(key))

    def requeue_claim(self, key: ObjectKey) -> None:
        """Queue the units that decide about a claim."""
        claim = self._store.claims.get(key)
        # Most events of a claim are its allocation or reservation, which need no action on the claim alone.
        if claim is None or claim.deleting or claim.allocation is None or self._left_over(claim):
            self.put(Unit(Kind.CLAIM, key))
        users = self.roster.users(key)
        for pod in users:
            self.put(Unit(Kind.POD, pod))
        self._gangs(users)

    def _gangs(self, pods: Iterable[ObjectKey]) -> None:
        """Requeue the gangs of pods that wait."""
        if not self.gangs.named:
            return
        for gang in self.gangs.of(pods):
            self.put(gang_unit(gang))

    def _left_over(self, claim: ResourceClaim) -> bool:
        """Whether we allocated a claim for pods that are all gone."""
        used = claim.status.reserved_for or self.roster.users(claim.key)
        return not used and not self._ours.claims(claim) and is_ours(claim)
