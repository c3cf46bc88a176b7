"""Gated pods that ask for extended resources of classes, for which kube-scheduler makes a special claim.

The claim cannot be written ahead. So node and devices are chosen, and nothing else of their drivers is given
on that node until kube-scheduler has made the claim there, or until a deadline. The pod is pinned to the node
as its gate is removed, and says until when the node is held: so every process holds it, whenever it starts.
Source: EXT-1 to EXT-6.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.request_options import read_claims
from reconciler.allocation.dra.selector_masks import evaluate_selectors
from reconciler.allocation.dra.static_match import match_in_fleet
from reconciler.api.migrate.special_claims import served_by_classes, typed_special_claim
from reconciler.api.objects.claims import ResourceClaim, is_ours
from reconciler.api.objects.core import Pod, is_live
from reconciler.api.objects.gangs import release_on
from reconciler.api.objects.meta import ObjectKey, PoolID
from reconciler.api.objects.pinning import Operation, pinned
from reconciler.api.objects.plan import Plan
from reconciler.control.units import Roster
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.nodes.room import demand
from reconciler.state.nominations import HeldPlace, Nomination, devices_of, of_special
from reconciler.state.store import Delta, Store

if TYPE_CHECKING:  # offline, nothing is held, and nothing waits
    from reconciler.control.nominating import Nominating

HANDED_OVER = "dra-reconciler.io/handed-over"
"""Annotation of a pod whose gate is removed before it has devices: until when, and for which drivers, nothing
else is given on its node. Empty or absent while it is gated"""


def wanted_claim(pod: Pod, store: Store) -> ResourceClaim | None:
    """The special claim that a gated pod needs and does not have. Of `unserved` there must be nothing."""
    served = served_by_classes(pod, store.supply.classes) if not pod.special_claim else {}
    return typed_special_claim(pod, served) if served else None


def selected_drivers(claim: ResourceClaim, snapshot: Snapshot) -> dict[str, set[str]]:
    """Class -> the drivers whose devices a claim may get by it, on any node. Its selectors have run."""
    fleet, found = snapshot.fleet, dict[str, set[str]]()
    for slot in read_claims((claim,), snapshot.classes, snapshot.rules).slots:
        for option in slot.options:
            masks = evaluate_selectors(option, fleet)
            pools = set(fleet.pool_of[masks.true | masks.error].tolist())
            drivers = found.setdefault(option.source.device_class_name, set())
            drivers |= {fleet.pools[at].id.driver for at in pools}
    return found


def still_suits(place: HeldPlace, claim: ResourceClaim, snapshot: Snapshot) -> bool:
    """Whether the devices that were chosen for a claim exist, match and have no taint that it minds."""
    try:
        slots = read_claims((claim,), snapshot.classes, snapshot.rules).slots
    except Fatal:  # the decision reports it
        return False
    matches = [match_in_fleet(option, snapshot).suitable for slot in slots for option in slot.options]
    rows = [snapshot.fleet.rows_of(device) for device in place.devices]
    return place.node in snapshot.topology.nodes and all(
        of and all(any(suitable[row] for suitable in matches) for row in of) for of in rows
    )


class HandOverTerms(NamedTuple):
    """How pods are handed to kube-scheduler."""

    clock: Callable[[], float]
    """That of the loop"""
    now: Callable[[], datetime]
    """The time of day"""
    seconds: float
    """How long a node is held for the claim"""
    calm: float
    """How old our last allocation there must be, so that kube-scheduler has seen it"""


class SpecialClaims(Struct, eq=False):
    """Holds nodes for special claims, and knows when a gate may be removed. Nothing here awaits."""

    _store: Store
    _roster: Roster
    _nominating: "Nominating"
    _given: HandOverTerms | None
    """Without them nothing is held: whoever replays decisions is told"""
    _written: dict[PoolID, float] = {}
    """When an allocation of ours was last seen to be new, the oldest first; no longer than it matters"""
    _handed: dict[ObjectKey, tuple[str, float]] = {}
    """Pods that were handed over: uid, and until when at most, whatever their annotation says later"""

    @property
    def _terms(self) -> HandOverTerms:
        assert self._given is not None
        return self._given

    def nominate(self, pod: Pod, plan: Plan, claim: ResourceClaim, snapshot: Snapshot) -> None:
        """Hold the node of a decision for a gated pod."""
        drivers = sorted(set().union(*selected_drivers(claim, snapshot).values()))
        room = tuple(sorted(demand(pod).items()))
        place = HeldPlace(plan.node, devices_of([plan]), room, tuple(drivers))
        seconds = self._terms.calm + self._terms.seconds
        self._hold(pod, place, seconds, "kube-scheduler is to make its claim there")

    def note(self, delta: Delta) -> None:
        """Take note of new allocations of ours, and of pods that were handed over."""
        if self._given is None:
            return
        for key in delta.allocated:
            claim = self._store.claims.get(key)
            if claim is not None and claim.allocation is not None and is_ours(claim):
                for result in claim.allocation.devices.results:
                    self._note_write(result.id.pool_id, self._terms.clock())
        using = (pod for claim in delta.claims for pod in self._roster.users(claim))
        for key in {*delta.pods, *using}:
            pod = self._store.pods.get(key)
            if pod is None:
                self._handed.pop(key, None)
            elif HANDED_OVER in pod.metadata.annotations and not pod.gated:
                self._hold_again(pod)

    def _note_write(self, pool: PoolID, now: float) -> None:
        self._written.pop(pool, None)
        self._written[pool] = now
        while next(iter(self._written.values())) < now - self._terms.calm:
            del self._written[next(iter(self._written))]

    def wait(self, place: HeldPlace) -> float:
        """Seconds until the gate of a pod may be removed that gets devices of a place."""
        view = self._store.snapshot().topology.view(place.node)
        pools = {pool.pool for pool in view.pools if pool.pool.driver in place.drivers}
        for plan in self._store.assumptions:
            devices = plan.plain or (result.id for result in plan.allocation.devices.results)
            if any(device.pool_id in pools for device in devices):
                return self._terms.calm
        last = max((self._written.get(pool, -inf) for pool in pools), default=-inf)
        return max(last + self._terms.calm - self._terms.clock(), 0.0)

    def release(self, pod: Pod, place: HeldPlace) -> list[Operation]:
        """The steps of a JSON patch that pins a pod, removes its gate, and says what is held from now on."""
        until = (self._terms.now() + timedelta(seconds=self._terms.seconds)).astimezone(UTC)
        told = f"{until:%Y-%m-%dT%H:%M:%SZ} {','.join(place.drivers)}"
        path = f"/metadata/annotations/{HANDED_OVER.replace('/', '~1')}"
        none: list[Operation] = [{"op": "add", "path": "/metadata/annotations", "value": {}}]
        note: Operation = {"op": "add", "path": path, "value": told}
        return [*([] if pod.metadata.annotations else none), note, *release_on(pod, place.node)]

    def _hold_again(self, pod: Pod) -> None:
        """Hold the node of a pod that was handed over, until its claim is seen."""
        claim = self._store.claims.get(ObjectKey(pod.key.namespace, pod.special_claim))
        stamp, _, drivers = pod.metadata.annotations[HANDED_OVER].partition(" ")
        node = pinned(pod)
        if not (is_live(pod) and node and drivers):
            return
        try:
            seconds = (datetime.fromisoformat(stamp) - self._terms.now()).total_seconds()
        except (ValueError, TypeError):
            return  # somebody else wrote it
        is_new = self._handed.get(pod.key, ("", inf))[0] != pod.metadata.uid
        left = self._left(pod, min(seconds, self._terms.seconds))
        if claim is not None and claim.allocation is not None:
            # A process that is gone handed it over, and the claim was made before this one saw the pod.
            if left > 0 and is_new:
                self._nominating.report_special_claim(pod, ())
            return
        known = self._store.nominations.get(of_special(pod.key))
        devices = known.devices if known is not None and known.uid == pod.metadata.uid else ()
        place = HeldPlace(node, devices, (), tuple(drivers.split(",")))
        if left > 0 and (known is None or known.places != (place,)):
            self._hold(pod, place, left, "kube-scheduler makes its claim now")

    def _left(self, pod: Pod, seconds: float) -> float:
        """How long a pod's node may still be held: who writes the annotation again must not prolong it."""
        now = self._terms.clock()
        uid, until = self._handed.get(pod.key, ("", inf))
        if uid != pod.metadata.uid:
            until = inf
        self._handed[pod.key] = pod.metadata.uid, min(until, now + seconds)
        return self._handed[pod.key][1] - now

    def _hold(self, pod: Pod, place: HeldPlace, seconds: float, why: str) -> None:
        deadline = (self._terms.now() + timedelta(seconds=seconds)).astimezone(UTC)
        self._nominating.hold(
            Nomination(
                of_special(pod.key),
                (place,),
                pod.spec.priority or 0,
                self._terms.clock() + seconds,
                f"{deadline:%Y-%m-%dT%H:%M:%SZ}",
                pod.metadata.uid,
            ),
            why,
        )
