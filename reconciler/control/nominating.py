"""Holds room for claims, pods, gangs and workloads until it is used, expires, or is dropped.

Decisions read the nominations of the state. `held_room` keeps a record of them, from which the next leader
holds them again. Without one they are gone after a restart: whoever made them makes them again from what it
sees, since pods that are being deleted count as gone for it.
"""

import asyncio
from collections.abc import Callable

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.api.objects.changes import Recorded
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod, claims_of
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.control.decisions.allocating import AllocatedByScheduler
from reconciler.control.decisions.declaration import Report
from reconciler.control.decisions.every import Nominated, NominationDropped, NominationExpired, NominationUsed
from reconciler.control.inputs import RoomEnded, RoomHeld
from reconciler.control.units import GangRoster
from reconciler.state.devices.ledger import Holder
from reconciler.state.nodes.table import Nodes
from reconciler.state.nominations import Leaving, Nomination, Nominee, NomineeKind, of_gang
from reconciler.state.store import Delta, Store

GONE = "it is gone"
"""Why room is given up for an object that does not exist any more"""


class Nominating(Struct, eq=False):
    """Puts nominations into the state and takes them out. Nothing here awaits but `run`."""

    _store: Store
    _nodes: Nodes
    _gangs: GangRoster
    _report: Report
    _wake: Callable[[Delta, bool], None]
    """Gets the change of the store, and whether a node has more room"""
    _note: Callable[[Recorded], None]
    """Gets what is about to change, for a journal"""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever room is held, or not held any more, or others leave. Who writes that down clears it"""
    leaving: Leaving | None = None
    """The group that is evicted as a whole for a nominee"""
    leaving_serial: int = 0
    """Number of its changes so far"""

    def hold(self, nomination: Nomination, why: str) -> None:
        """Hold room, in place of what is held for the same nominee. Others wait for it from now on."""
        before = self._store.nominations.get(nomination.nominee)
        self._note(RoomHeld(replace(nomination, until=0.0)))  # this clock tells other processes nothing
        delta = self._store.nominate(nomination)
        self._wake(delta, self._nodes.nominated.hold(nomination))
        self._tell()
        if before is None or before.places != nomination.places:
            nodes = tuple(dict.fromkeys(place.node for place in nomination.places))
            self._report(Nominated(nomination.nominee, nodes, nomination.devices, nomination.deadline, why))

    def restore(self, nomination: Nomination, why: str) -> bool:
        """Hold room again that was held before, unless nobody waits for it. Returns whether it is held."""
        if self._gone(nomination) is not None:
            return False
        self.hold(nomination, why)
        return True

    def drop(self, nominee: Nominee, why: str) -> None:
        """Hold nothing for a nominee any more, and wake who waits for it."""
        if self._end(nominee):
            self._report(NominationDropped(nominee, why))

    def leave(self, leaving: Leaving | None) -> None:
        """Say which group is evicted as a whole, so that a next leader finishes that; None: none is."""
        if leaving != self.leaving:
            self.leaving = leaving
            self.leaving_serial += 1
            self.news.set()

    def follow(self, delta: Delta) -> None:
        """Drop what is used, and what is held for objects that are gone."""
        if not self._store.nominations or not (delta.claims or delta.pods):
            return
        for one in self._store.nominations:
            if (gone := self._gone(one)) is None:
                continue
            self._end(one.nominee)
            self._report(NominationDropped(one.nominee, GONE) if gone else NominationUsed(one.nominee))
            if not gone and one.nominee.kind is NomineeKind.SPECIAL:
                self.report_special_claim(self._store.pods[one.nominee.key], one.devices)

    def report_special_claim(self, pod: Pod, decided: tuple[DeviceID, ...]) -> None:
        """Report what kube-scheduler allocated to a pod; `decided` were chosen here, if that is known."""
        if (claim := self._special_claim(pod)) is not None and claim.allocation is not None:
            devices = tuple(result.id for result in claim.allocation.devices.results)
            self._report(AllocatedByScheduler(claim.key, pod.key, devices, decided))

    def expire(self, now: float) -> None:
        """Drop what nobody used until its deadline. `now` is by the clock of the loop."""
        for one in self._store.nominations.expired(now):
            self._end(one.nominee)
            self._report(NominationExpired(one.nominee))

    async def run(self, clock: Callable[[], float]) -> None:
        """Expire nominations when they are due, until cancelled."""
        while True:
            self._changed.clear()
            due = self._store.nominations.next_deadline()
            try:
                async with asyncio.timeout(None if due is None else max(due - clock(), 0.0)):
                    await self._changed.wait()
            except TimeoutError:
                self.expire(clock())

    def _end(self, nominee: Nominee) -> bool:
        if self._store.nominations.get(nominee) is None:
            return False
        self._note(RoomEnded(nominee))
        delta = self._store.end_nomination(nominee)
        self._wake(delta, self._nodes.nominated.end(nominee))
        self._tell()
        return True

    def _tell(self) -> None:
        self._changed.set()
        self.news.set()

    def _gone(self, nomination: Nomination) -> bool | None:
        """Whether the nominee is gone; False if it has its place; None if it waits."""
        nominee = nomination.nominee
        match nominee.kind:
            case NomineeKind.CLAIM:
                claim = self._store.claims.get(nominee.key)
                if claim is None or _is_another(nomination, claim.metadata.uid):
                    return True
                return None if claim.allocation is None else False
            case NomineeKind.POD:
                return self._pod_gone(nominee.key, nomination)
            case NomineeKind.SPECIAL:
                return self._special_claim_gone(nominee.key, nomination)
            case NomineeKind.GANG:
                return self._gang_gone(nominee)
            case NomineeKind.REPLACEMENT:
                return False if self._is_taken(nomination) else None
        return None

    def _is_taken(self, nomination: Nomination) -> bool:
        """Whether a new pod has all that is held: nobody else may take it.

        The pod that it replaces may hold some of it until it is gone.
        """
        holders = [self._store.holders(device) for device in nomination.devices]
        return all(any(self._has(one, nomination.uid) for one in found) for found in holders)

    def _has(self, holder: Holder, replaced: str) -> bool:
        """Whether a claim is allocated that was not made for the pod that is replaced."""
        claim = self._store.claims.get(holder.claim)
        if claim is None or claim.metadata.uid != holder.uid or claim.allocation is None:
            return False
        return all(owner.uid != replaced for owner in claim.metadata.owner_references)

    def _pod_gone(self, key: ObjectKey, nomination: Nomination) -> bool | None:
        pod = self._store.pods.get(key)
        if pod is None or pod.finished or _is_another(nomination, pod.metadata.uid):
            return True
        claims = [self._store.claims.get(name) for name in claims_of(pod)]
        placed = bool(claims) and all(one is not None and one.allocation is not None for one in claims)
        return False if pod.spec.node_name or placed else None

    def _special_claim_gone(self, key: ObjectKey, nomination: Nomination) -> bool | None:
        pod = self._store.pods.get(key)
        if pod is None or pod.finished or _is_another(nomination, pod.metadata.uid):
            return True
        return None if self._special_claim(pod) is None else False

    def _special_claim(self, pod: Pod) -> ResourceClaim | None:
        """The claim that kube-scheduler made for a pod, once it is allocated. Until then a node that the pod
        names says nothing.
        """
        claim = self._store.claims.get(ObjectKey(pod.key.namespace, pod.special_claim))
        return claim if claim is not None and claim.allocation is not None else None

    def _gang_gone(self, nominee: Nominee) -> bool | None:
        gang = next((one for one in self._gangs.named if of_gang(one) == nominee), None)
        if gang is None:
            return True
        return None if self._gangs.waits(gang) else False


def _is_another(nomination: Nomination, uid: str) -> bool:
    return bool(nomination.uid) and nomination.uid != uid
