"""Protections of the reconciler, each broken on purpose: a simulation that misses one of them is too mild."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

import numpy as np

from reconciler.analysis.relocation.occupants import Budgets
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.claims import ALLOCATED_AT, ANNOUNCED, FINALIZER, is_announced, is_ours
from reconciler.api.objects.gangs import release, release_on
from reconciler.app import moving
from reconciler.cluster import client, events, transport, writer
from reconciler.cluster.client import Client
from reconciler.cluster.watch import Recall, _Follower
from reconciler.cluster.writer import Writer
from reconciler.control import dispatching, fence, held_room, ownership, planner, special_claims
from reconciler.control.audit import Audit, ReclaimedByScheduler
from reconciler.control.dispatching import Dispatcher
from reconciler.control.early_names import EarlyNames
from reconciler.control.fence import Fence
from reconciler.control.gangs import planner as gang_planner
from reconciler.control.gangs.handler import GangWriter
from reconciler.control.gangs.planner import GangPlanner, Seats
from reconciler.control.intake import Intake
from reconciler.control.loop import Reconciler
from reconciler.control.ownership import Ownership
from reconciler.control.planner import Planner
from reconciler.control.relocation import ground
from reconciler.control.relocation.evictor import Evictor
from reconciler.control.relocation.moves import Allowed
from reconciler.control.relocation.preemptor import Preemptor
from reconciler.control.relocation.rebalancer import Rebalancer
from reconciler.control.relocation.relocator import Candidates, RoomPlan
from reconciler.control.settler import HandOver, Settler
from reconciler.control.special_claims import SpecialClaims
from reconciler.control.units import Kind
from reconciler.control.waiting import Waiting
from reconciler.embedded import writing as server_evicting
from reconciler.errors import Retry, Undecided
from reconciler.ha.elector import Elector
from reconciler.state import held_back, store
from reconciler.state.pods.groups import PodGroups
from reconciler.state.pods.placed import Placed, placed_by_group
from reconciler.state.store import NOTHING, Store

Mutant = Callable[[], AbstractContextManager[object]]


def _swap(owner: object, name: str, instead: Any) -> Mutant:
    assert hasattr(owner, name)
    return lambda: mock.patch.object(owner, name, instead)


async def _nothing_read(*_: Any) -> None:
    """Nobody knows what the previous leader held, or has on its way."""


async def _forgotten(self: Any, claim: Any) -> None:
    """An unanswered write is taken for one that was not applied."""
    plan = self._intake.store.assumed(claim.metadata.uid)
    if plan is not None and claim.metadata.uid not in self._busy:
        self._intake.forget(plan)


async def _read_only(self: Any, claim: Any) -> None:
    """The claim is read, but the write that may still come is not fenced off."""
    plan = self._intake.store.assumed(claim.metadata.uid)
    if plan is not None and claim.metadata.uid not in self._busy:
        found = await self._writer.read_claim(claim.key)
        if found is not None:
            self._intake.observe(found)
        self._intake.forget(plan)


_patch = Client.patch


async def _unguarded(self: Any, resource: Any, key: Any, value: Any, **how: Any) -> Any:
    """A body without the version that it was decided from. Leases keep theirs."""
    if isinstance(value, list):
        value = [step for step in value if step["path"] != "/metadata/resourceVersion"]
    elif "status" in value or "finalizers" in value.get("metadata", {}) or "schedulingGates" in str(value):
        metadata = {k: v for k, v in value["metadata"].items() if k != "resourceVersion"}
        value = {**value, "metadata": metadata}
    return await _patch(self, resource, key, value, **how)


_marking = Writer._marking


def _without_finalizer(self: Any, key: Any, version: Any, finalizers: Any, annotations: Any) -> Any:
    return _marking(self, key, version, [name for name in finalizers if name != FINALIZER], annotations)


def _keeps_what_is_gone(self: Any, listing: Any) -> Any:
    delta = NOTHING
    for thing in listing.objects:
        delta |= self._put(thing)
    return delta


def _observes_anything(self: Any, claim: Any) -> None:
    self._dispatcher.dispatch(self.store.apply(Changed("ResourceClaim", claim)))


def _forgets_in_silence(self: Any, plan: Any) -> None:
    self.store.forget(plan)


_refusal = transport.refusal


def _not_applied(method: str, path: str, response: Any) -> Any:
    """A server that failed is believed not to have applied anything."""
    found = _refusal(method, path, response)
    return Retry(str(found)) if isinstance(found, Undecided) else found


_deleted = Planner._deleted


def _frees_what_is_used(self: Any, claim: Any) -> Any:
    unused = claim.status.model_copy(update={"reserved_for": ()})
    return _deleted(self, claim.model_copy(update={"status": unused}))


_put_claim = Store._put_claim


def _puts_by_name(self: Any, claim: Any) -> Any:
    """A claim made anew is taken for the one that had its name."""
    known = self._claims.get(claim.key)
    if known is not None and known.metadata.uid != claim.metadata.uid:
        return NOTHING
    return _put_claim(self, claim)


async def _no_fence(self: Any) -> None:
    await self._intake.listed.wait()
    self.up.set()


def _old_wins(self: Any, unit: Any) -> None:
    """Refusals count as failures of the write that follows them."""
    self._intake.waiting.drop(unit)


_wait = Reconciler._wait


def _waits_later(self: Any, unit: Any, wants: Any) -> None:
    """A refused unit is known to wait once its turn goes on: others may change the state before."""
    asyncio.get_running_loop().call_soon(_wait, self, unit, wants)


async def _at_once(_: Any) -> None:
    """What a watch has shown by now is taken for all there is."""


def _whoever_names_it(self: Any, claim: Any) -> Any:
    """What was taken back is left to kube-scheduler even where it may not see the pod yet."""
    return next((self._store.pods[key] for key in sorted(self._roster.users(claim))), None)


MUTANTS: dict[str, Mutant] = {
    "plans are not assumed": _swap(Store, "assume", lambda *_: None),
    "unanswered writes are forgotten": _swap(Settler, "resolve", _forgotten),
    "late writes are not fenced": _swap(Settler, "resolve", _read_only),
    "writes without resourceVersion": _swap(Client, "patch", _unguarded),
    "allocation without finalizer": _swap(Writer, "_marking", _without_finalizer),
    "a listing drops nothing": _swap(Store, "_replace", _keeps_what_is_gone),
    "old versions count": _swap(store, "older", lambda *_: False),
    "rewound events count": _swap(events, "precedes", lambda *_: False),
    "all news of claims is an echo": _swap(
        Intake,
        "_is_unchanged",
        lambda self, thing: thing.kind == "ResourceClaim" and thing.key in self.store.claims,
    ),
    "changes wake nobody": _swap(Waiting, "woken_by", lambda *_: ()),
    "freed plans wake nobody": _swap(Intake, "forget", _forgets_in_silence),
    "resolved writes wake nobody": _swap(Intake, "resolved", Intake.forget),
    "answers about claims long gone count": _swap(Intake, "observe", _observes_anything),
    "500 means not applied": _swap(client, "refusal", _not_applied),
    "all devices are ours": _swap(Ownership, "trespass", lambda *_: None),
    "claims in use are freed": _swap(Planner, "_deleted", _frees_what_is_used),
    "nothing is fenced off at the start": _swap(Fence, "raise_", _no_fence),
    "refusals slow writes down": _swap(Reconciler, "_stop_waiting", _old_wins),
    "who was just refused does not wait yet": _swap(Reconciler, "_wait", _waits_later),
    "searches hide what changes meanwhile": _swap(Waiting, "mark", lambda *_: None),
    "a claim is its name": _swap(Store, "_put_claim", _puts_by_name),
    "gated pods are left to kube-scheduler": _swap(ReclaimedByScheduler, "_pod", _whoever_names_it),
    "gates go before pods name their claims": _swap(EarlyNames, "supposes", lambda *_: False),
    "old lists are believed": _swap(_Follower, "_is_restored", lambda *_: False),
    "plans of a former leader raise alarms": _swap(Audit, "_is_assumed", lambda *_: False),
}


def _always(*_: Any) -> bool:
    return True


PAIRED: dict[str, Mutant] = {
    "writes outlast the lease": _swap(Elector, "may_write", _always),
    "everybody leads": lambda: mock.patch.multiple(Elector, leads=_always, may_write=_always),
    "standby pictures are believed": _swap(Recall, "listed_again", _at_once),
}
"""The same, of what keeps two replicas apart"""

_serves = GangPlanner.serves


async def _not_recorded(*_: Any) -> None:
    """The node of a pod that no allocation pins is known to this process only."""


def _not_pinned(self: Any, place: Any) -> Any:
    """A gate is removed, and nothing says on which node the pod must run."""
    return self._pods.merge(place.pod, release(place.pod))


async def _not_resolved(self: Any, _: Any) -> None:
    """An unanswered patch of a pod is taken for one that will not arrive."""
    self._unanswered.clear()


def _nowhere(*of: Any) -> Any:
    return {group: Placed((), (), there.pods) for group, there in placed_by_group(*of).items()}


GANGED: dict[str, Mutant] = {
    "gates go as soon as a pod has a seat": _swap(
        GangPlanner, "_ready", lambda _, __, ___, places, *____: tuple(places)
    ),
    "pods of gangs are decided alone": _swap(
        GangPlanner, "serves", lambda self, unit: unit.kind is Kind.GANG and _serves(self, unit)
    ),
    "gangs keep what they have": _swap(GangPlanner, "_returned", lambda _, gang, __: Seats(gang)),
    "a gang ends with its first gate": _swap(GangPlanner, "_was_gated", lambda *_: False),
    "nodes of pods are not recorded": _swap(GangWriter, "record", _not_recorded),
    "pods are not pinned": _swap(GangWriter, "_release", _not_pinned),
    "unanswered patches of pods may arrive": _swap(GangWriter, "resolve", _not_resolved),
    "the members that run choose no domain": _swap(gang_planner, "placed_by_group", _nowhere),
    "give-backs of a predecessor are not fenced": _swap(Fence, "_is_seat", lambda *_: False),
    "groups of a tree are decided alone": _swap(PodGroups, "root", lambda _, gang: gang),
    "changes of claims do not wake gangs": _swap(Dispatcher, "_gangs", lambda *_: None),
}
"""The same, of what keeps gangs whole"""


@contextmanager
def _without_budgets() -> Iterator[None]:
    """Nobody counts: neither who plans, nor the server, which would refuse what a plan must not do."""
    with mock.patch.object(Budgets, "of", return_value=()), mock.patch.object(server_evicting, "_count"):
        yield


EVICTING: dict[str, Mutant] = {
    "budgets allow everything": _without_budgets,
    "held room is for everybody": _swap(Store, "snapshot_for", lambda self, _: self.snapshot()),
    "everybody may preempt": _swap(Candidates, "_agrees", lambda *_: True),
    "pods of others are evicted": _swap(moving, "allocated_by_us", lambda *_: True),
    "whole gangs are evicted": _swap(RoomPlan, "acts", property(lambda self: not self.refused)),
    "plans outlive what they rest on": _swap(ground, "_different", lambda *_: iter(())),
    "plans outlive what the pod must mind": _swap(ground, "surroundings", lambda *_: ()),
    "a new leader holds nothing": _swap(held_room, "_read_with_retries", _nothing_read),
    "a new leader leaves groups half gone": _swap(Preemptor, "_finish", _nothing_read),
    "eviction requests stay": _swap(Evictor, "withdraw", _nothing_read),
    "a leader in between is forgotten": _swap(Evictor, "stand_by", lambda _: None),
}
"""The same, of what keeps evictions from doing harm"""


def _in_haste(self: Any, campaign: Any, _: Any) -> None:
    """The next pod moves before what replaces the one before runs."""
    campaign.moving = None


MOVING: dict[str, Mutant] = {
    "everybody may be moved": _swap(Allowed, "permits", lambda *_: True),
    "several pods move at once": _swap(Rebalancer, "_follow", _in_haste),
}
"""The same, of what keeps moves from doing harm"""


def _room_for_all(self: Any, _: Any) -> Any:
    """Pods of a batch need devices, and nothing else of a node."""
    return np.full(len(self._store.snapshot().topology.order), 1_000_000)


BURSTING: dict[str, Mutant] = {
    "batches ignore the room of nodes": _swap(Planner, "room_for_copies", _room_for_all),
    "writes that have not begun are taken for unanswered": _swap(
        Settler, "assume", lambda self, plan: self._intake.assume(plan)
    ),
}
"""The same, of what keeps batches as if each unit were decided alone"""

_is_marked = fence._is_marked


def _marked_by_us(claim: Any) -> bool:
    """Of announced claims it is believed that nobody has allocated them before."""
    return _is_marked(claim) and not is_announced(claim)


def _without_its_finalizer(claim: Any) -> bool:
    return claim.metadata.annotations.get(ALLOCATED_AT) == ANNOUNCED


def _ours_by_announcement(claim: Any) -> bool:
    return is_ours(claim) or (claim.allocation is not None and _without_its_finalizer(claim))


@contextmanager
def _announced_are_ours() -> Iterator[None]:
    """In every module that frees what nobody uses."""
    with (
        mock.patch.object(dispatching, "is_ours", _ours_by_announcement),
        mock.patch.object(ownership, "is_ours", _ours_by_announcement),
        mock.patch.object(planner, "is_ours", _ours_by_announcement),
    ):
        yield


ANNOUNCING: dict[str, Mutant] = {
    "announced claims are not fenced off": _swap(fence, "_is_marked", _marked_by_us),
    "announcements count without the finalizer": _swap(writer, "is_announced", _without_its_finalizer),
    "all allocations of announced claims are ours": _announced_are_ours,
}
"""The same, of what keeps claims safe that are announced as they are created"""

HANDING: dict[str, Mutant] = {
    "gates go before kube-scheduler has seen what was given": _swap(SpecialClaims, "wait", lambda *_: 0.0),
    "only the decided devices are held": _swap(held_back, "_of_drivers", lambda *_: iter(())),
    "gates go without a node": _swap(special_claims, "release_on", lambda *of: release_on(*of)[-1:]),
    "annotations prolong what is held": _swap(SpecialClaims, "_left", lambda _, __, seconds: seconds),
    "devices that no longer suit are handed over": _swap(planner, "still_suits", lambda *_: True),
    "a new process holds no node": _swap(SpecialClaims, "_hold_again", lambda *_: None),
    "removals of gates are not fenced off at the start": _swap(HandOver, "fence_off", _nothing_read),
}
"""The same, of what keeps two allocators apart on one node"""

BY_KIND = {
    "": MUTANTS,
    "pair": PAIRED,
    "gangs": GANGED,
    "evictions": EVICTING,
    "moves": MOVING,
    "bursts": BURSTING,
    "announced": ANNOUNCING,
}
"""Kind of schedule -> its mutants; those of handing over have schedules of their own"""
EVERY = {name: mutant for of in (*BY_KIND.values(), HANDING) for name, mutant in of.items()}
