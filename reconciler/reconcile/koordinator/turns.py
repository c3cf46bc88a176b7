"""One turn of a pod that asks for Koordinator's devices: look, decide, write."""

import asyncio
from collections.abc import Callable, Container, Hashable
from typing import NamedTuple

from reconciler.cluster.podwriter import PodWriter
from reconciler.errors import Rejected
from reconciler.explain.explanation import Explanation
from reconciler.inventory.snapshot import Snapshot
from reconciler.koordinator.demand import Demand
from reconciler.koordinator.failure import Failure
from reconciler.koordinator.fleet import Fleet, Placed, Unserved
from reconciler.koordinator.holder import Holder
from reconciler.koordinator.names import ALLOCATED, TYPE_OF
from reconciler.koordinator.refusing import reason_of
from reconciler.nodes.placing import account, backed, places
from reconciler.objects.changes import Change
from reconciler.objects.core import Pod
from reconciler.objects.meta import DeviceID
from reconciler.objects.plan import Reason
from reconciler.reconcile.decisions import Answered, Equipped, Tell, Ungated, Waits
from reconciler.reconcile.intake import Intake
from reconciler.reconcile.koordinator.explaining import explanation
from reconciler.reconcile.koordinator.picture import Grant, Picture
from reconciler.reconcile.koordinator.refusing import Refusal, counts, refusal
from reconciler.reconcile.koordinator.writing import Settler
from reconciler.reconcile.pending import Pending
from reconciler.reconcile.units import Unit, is_live
from reconciler.reconcile.waiting import Wants

TRIES = 64
"""Machines that are asked before others get a turn: some 20 ms."""
BOTH = "TwoKindsOfDevices"
HELD = "HoldsDevices"
OURS = frozenset(TYPE_OF)


Journal = Callable[[str, Pod, Callable[[str], bool], Grant | Refusal], None]
"""Hears a decision's name, the pod, which nodes suit it, and the answer"""


class Unanswered(NamedTuple):
    """A write, and what there is to tell once it is known to be applied."""

    grant: Grant
    began: float
    name: str


class Where(NamedTuple):
    """Nodes on which a pod may run."""

    names: Container[str]
    crowded: bool
    """Whether other pods take what it needs on others"""


class Turns:
    """Serves gated pods that request Koordinator's devices, out of the same queue as claims."""

    def __init__(
        self,
        picture: Picture,
        intake: Intake,
        writer: PodWriter,
        *,
        clock: Callable[[], float],
        tell: Tell,
        names: Callable[[], str],
        answered: Answered,
        pending: Pending,
        journal: Journal = lambda *_: None,
    ) -> None:
        """Clock, tell, names and answered are those of the reconciler, as is `pending`. `journal` is told
        every decision before it becomes part of the picture.
        """
        self._journal = journal
        self._picture = picture
        self._intake = intake
        self._settler = Settler(picture, writer)
        self._clock = clock
        self._tell = tell
        self._names = names
        self._answered = answered
        self._pending = pending
        self._waiting: dict[Hashable, dict[Unit, Demand]] = {}
        """Kind of demand -> who waits with it."""
        self._shapes: dict[Unit, Hashable] = {}
        self._unanswered: dict[Unit, Unanswered] = {}
        self._room = 0

    @property
    def fleet(self) -> Fleet:
        """The machines and who holds what; only to be read."""
        return self._picture.fleet

    def explained(self, unit: Unit) -> Explanation | None:
        """Why a pod waits for devices; None if it does not."""
        pod, demand = self._picture.pod(unit.key), self._picture.demand(unit.key)
        reason = self._pending.reason(unit)
        if pod is None or demand is None or not reason:
            return None
        return explanation(pod, demand, self.fleet, reason)

    def take(self, change: Change) -> None:
        """Make a change part of both pictures, and wake the pods that may have another answer now."""
        self._picture.apply(change)
        self._intake.take(change)
        self._wake()

    async def serves(self, unit: Unit) -> bool:
        """One turn of a pod. False if the pod is nobody's who asks for these devices.

        Raises what reading and writing raise.
        """
        pod, demand = self._picture.pod(unit.key), self._picture.demand(unit.key)
        if pod is None or demand is None or not pod.gated or not is_live(pod):
            self._told_late(unit, pod)
            self._leave(unit)
            # The other picture may be behind, where the gate is still there.
            served = pod is not None and ALLOCATED in pod.metadata.annotations
            return served and pod is not None and not pod.spec.resource_claims
        if isinstance(demand, Failure):
            self._block(unit, reason_of(demand), demand.message)
        elif pod.spec.resource_claims:
            why = "asks for devices by resource claims and by Koordinator's resources; use one of the two"
            self._block(unit, BOTH, f"pod {pod.key} {why}")
        elif ALLOCATED in pod.metadata.annotations:
            why = f"has the annotation {ALLOCATED} already; remove it, or the gate if it shall stand"
            self._block(unit, HELD, f"pod {pod.key} {why}")
        else:
            await self._serve(unit, pod, demand)
        return True

    async def _serve(self, unit: Unit, pod: Pod, demand: Demand) -> None:
        began = self._clock()
        lost = self._picture.assumed(pod.key)
        if lost is not None:
            if await self._settler.resolve(lost):
                self._equipped(unit, self._unanswered.get(unit) or Unanswered(lost, began, ""))
            else:
                self._intake.put(unit)  # what was read is news: begin again from there
            return
        name = self._names()
        answer = await self._decide(pod, demand, name)
        if answer is None:
            self._intake.put(unit)
            return
        reason = answer.reason if isinstance(answer, Refusal) else ""
        self._answered(reason, self._clock() - began, name)
        if isinstance(answer, Refusal):
            self._refuse(unit, demand, answer, name)
            return
        if unit in self._shapes:
            # How often it was told no says nothing about how its write will fare.
            self._intake.queue.forget(unit)
        self._leave(unit)
        self._unanswered[unit] = Unanswered(answer, began, name)
        try:
            await self._settler.settle(answer)
        finally:
            self._wake()
        self._equipped(unit, self._unanswered[unit])

    async def _decide(self, pod: Pod, demand: Demand, name: str) -> Grant | Refusal | None:
        """Devices, assumed at once, or why there are none; None if the pod changed meanwhile."""
        fleet = self._picture.fleet
        while True:
            try:
                where = self._where(pod)
            except Rejected as exc:
                return Refusal(Reason.NODE_SELECTOR, str(exc))
            # No await between this answer and the assumption: the next decision must see this one.
            found = fleet.first(demand, where.names.__contains__, tries=TRIES)
            if found is not None:
                break
            await asyncio.sleep(0)
            if self._picture.pod(pod.key) is not pod:
                return None
        if isinstance(found, Unserved):
            left_out = self._left_out(pod) if found.unsuited else ""
            refused = refusal(found, left_out, crowded=where.crowded)
            self._journal(name, pod, where.names.__contains__, refused)
            return refused
        self._intake.pause.check()
        grant = _grant(pod, demand, found, fleet.text(found.node, found.allocation))
        self._journal(name, pod, where.names.__contains__, grant)
        self._picture.assume(grant)
        return grant

    def _where(self, pod: Pod) -> Where:
        """The nodes on which a pod may run. Raises Rejected for an affinity that cannot be read."""
        world = self._intake.store.snapshot()
        found = places(pod, (), self._intake.nodes, world.topology, self._waived(pod, world))
        names = world.topology.nodes.keys() if found.nodes is None else frozenset(found.nodes)
        return Where(names, found.crowded)

    def _left_out(self, pod: Pod) -> str:
        world = self._intake.store.snapshot()
        return account(pod, (), self._intake.nodes, world.topology, self._waived(pod, world))

    def _waived(self, pod: Pod, world: Snapshot) -> frozenset[str]:
        """Resources that a node need not offer itself: its Device object says what there is of ours."""
        return backed(world.classes, pod) | OURS

    def _told_late(self, unit: Unit, pod: Pod | None) -> None:
        """The watch may have told first of a write that was not answered."""
        found = self._unanswered.pop(unit, None)
        if found is None or pod is None or pod.metadata.uid != found.grant.pod.metadata.uid:
            return
        if pod.metadata.annotations.get(ALLOCATED) == found.grant.text:
            self._equipped(unit, found)

    def _equipped(self, unit: Unit, found: Unanswered) -> None:
        grant, began, name = found
        self._unanswered.pop(unit, None)
        self._leave(unit)
        self._intake.queue.forget(unit)
        devices = tuple(
            DeviceID(kind, grant.held.node, str(given.minor))
            for kind, grants in grant.held.allocation.items()
            for given in grants
        )
        seconds = self._clock() - began
        self._tell(Equipped(unit.key, devices, grant.held.node, seconds, decision_id=name))
        self._tell(Ungated(unit.key, decision_id=name))

    def _refuse(self, unit: Unit, demand: Demand, why: Refusal, name: str) -> None:
        """Let the unit wait, for a change or for its back-off."""
        self._unwait(unit)
        # Nodes that change, or get room for the pod itself, wake it as they wake those who wait for claims.
        self._intake.waiting.add(unit, Wants(frozenset(), room=False, crowded=why.crowded))
        self._waiting.setdefault(demand.shape, {})[unit] = demand
        self._shapes[unit] = demand.shape
        if self._pending.reason(unit) != why.reason:
            found = counts(unit.key, self._picture.fleet.counts(demand))
            nodes = len(self._picture.fleet.machines)
            waits = Waits((), unit.key, why.reason, why.message, nodes, 0, found, decision_id=name)
            self._tell(waits)
        self._pending.note(unit, why.reason, (unit.key,))
        self._intake.put(unit, after=self._intake.queue.failed(unit))

    def _block(self, unit: Unit, reason: str, message: str) -> None:
        """Nothing but a change of the pod itself can help."""
        self._unwait(unit)
        if self._pending.note(unit, reason, (unit.key,)):
            self._tell(Waits((), unit.key, reason, message))

    def _leave(self, unit: Unit) -> None:
        self._unwait(unit)
        self._pending.drop(unit)

    def _unwait(self, unit: Unit) -> None:
        self._intake.waiting.drop(unit)
        shape = self._shapes.pop(unit, None)
        if shape is not None:
            del self._waiting[shape][unit]
            if not self._waiting[shape]:
                del self._waiting[shape]

    def _wake(self) -> None:
        """Ask those again who may find something: one look a kind of demand, at what changed."""
        if self._room == self._picture.room:
            return
        self._room = self._picture.room
        for units in self._waiting.values():
            if self._picture.fleet.may_serve(next(iter(units.values()))):
                self._intake.queue.wake(units)


def _grant(pod: Pod, demand: Demand, placed: Placed, text: str) -> Grant:
    return Grant(pod, demand, Holder(placed.node, placed.allocation, demand.hints), text)
