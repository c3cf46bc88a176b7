"""Checks of what is held, by any allocator: double allocation, exclusion, allocations that others cleared."""

import asyncio
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager

from msgspec import Struct

from reconciler.allocation.placement.placing import Placement
from reconciler.api.objects.claims import ResourceClaim, is_ours
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import gang_of
from reconciler.api.objects.meta import ApiObject, DeviceID, ObjectKey
from reconciler.api.objects.semantics import GroupMode
from reconciler.control.build_ahead import build_ahead
from reconciler.control.decisions import allocating as decisions
from reconciler.control.decisions.declaration import Report
from reconciler.control.ownership import is_raced
from reconciler.control.units import Roster
from reconciler.errors import Rejected
from reconciler.state.devices.exclusion_modes import conflicts, group_modes, held_of, problems
from reconciler.state.devices.remaining import Key, Overcommitted, overcommitted
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.pods.placed import pinned_to
from reconciler.state.store import Store


class ExclusionAudit:
    """Checks snapshots, and reports each finding once."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._reported: frozenset[str] = frozenset()
        self._modes: dict[str, GroupMode] = {}

    def check(self, snapshot: Snapshot) -> None:
        """Check the allocated devices. Costs one comparison if no devices exclude others."""
        if snapshot.fleet.exclusion is None and not self._reported:
            return
        self._compare_modes(snapshot)
        found = dict.fromkeys(problems(snapshot), ()) | dict(conflicts(snapshot))
        for message in sorted(found.keys() - self._reported):
            self._report(decisions.ExclusionViolated(message, found[message]))
        self._reported = frozenset(found)

    def _compare_modes(self, snapshot: Snapshot) -> None:
        for one in group_modes(snapshot):
            before = self._modes.get(one.driver, one.mode)
            self._modes[one.driver] = one.mode
            held = held_of(snapshot, one.driver) if before != one.mode else 0
            if held:
                self._report(decisions.GroupModeChanged(one.driver, before, one.mode, held))


class ReclaimedByScheduler(Struct, eq=False):
    """The claims that kube-scheduler decides.

    `withdrawing` has the uids of claims whose allocation this process is withdrawing.
    """

    _store: Store
    _roster: Roster
    _placement: Placement
    _report: Report
    _withdrawing: Container[str]
    _uids: dict[ObjectKey, str] = {}

    def __contains__(self, claim: object) -> bool:
        if not isinstance(claim, ResourceClaim) or self._uids.get(claim.key) != claim.metadata.uid:
            return False
        if claim.allocation is not None or self._pod(claim.key) is None:
            del self._uids[claim.key]
            return False
        return True

    def forget(self, claim: ObjectKey) -> None:
        """A claim is deleted."""
        self._uids.pop(claim, None)

    def note(self, thing: ApiObject) -> None:
        """Compare a new version of a claim with the store, before it is applied."""
        before, uid = self._store.claims.get(thing.key), thing.metadata.uid
        if not isinstance(thing, ResourceClaim) or thing.allocation is not None or uid in self._withdrawing:
            return
        held = before.allocation if before is not None and before.metadata.uid == uid else None
        if before is None or held is None or not is_ours(before):
            return
        devices = tuple(result.id for result in held.devices.results)
        pod = self._pod(thing.key)
        if thing.deleting or pod is None or pod.spec.node_name:
            # The resourceclaim controller frees a claim whose pods have ended, which may be told later.
            self._report(decisions.Deallocated(thing.key, devices))
            return
        self._uids[thing.key] = uid
        if any(one.uid == pod.metadata.uid for one in before.status.reserved_for):
            # Most likely the pod was bound and has ended, and both are told later: no reason to warn.
            self._report(decisions.Deallocated(thing.key, devices))
            return
        node = pinned_to(held.node_selector)
        self._report(
            decisions.Reclaimed(
                thing.key, pod.key, node, devices, self._reasons_against(pod, node), gang_of(pod)
            )
        )

    def _pod(self, claim: ObjectKey) -> Pod | None:
        """A pod without the gate that names the claim, if possible one that is not bound."""
        found = [self._store.pods[key] for key in sorted(self._roster.users(claim))]
        return min(
            (pod for pod in found if not pod.gated), key=lambda pod: bool(pod.spec.node_name), default=None
        )

    def _reasons_against(self, pod: Pod, node: str) -> str:
        if not node:
            return "its devices did not bind it to a single node"
        try:
            reasons = self._placement.against(pod, node, self._store.snapshot())
        except Rejected as exc:
            reasons = [str(exc)]
        return f"node {node}: {'; '.join(reasons) or 'no known reason against it'}"


class Audit(Struct, eq=False):
    """Checks every device whose holders changed, and reports each double allocation once.

    Answers to our requests show claims in later versions than the watch has reached, so the other holder may
    be deleted already. A double allocation is only suspected until the watch has reached that version, and
    while a plan may still fail.
    """

    _store: Store
    _report: Report
    _reported: dict[DeviceID, frozenset[ObjectKey]] = {}
    _suspected: dict[DeviceID, frozenset[ObjectKey]] = {}
    _ending: dict[DeviceID, frozenset[ObjectKey]] = {}
    _reached: int = 0

    @property
    def doubles(self) -> int:
        """Devices that are known to be allocated twice."""
        return len(self._reported)

    @property
    def suspected(self) -> dict[DeviceID, frozenset[ObjectKey]]:
        """Devices that seem to be allocated twice, and their claims. A copy."""
        return dict(self._suspected)

    @property
    def is_quiet(self) -> bool:
        """Whether no device is, or seems to be, allocated twice."""
        return not (self._reported or self._suspected or self._ending)

    def sharing(self, claims: Iterable[ObjectKey]) -> set[ObjectKey]:
        """The claims that hold a device together with one of these claims, these included."""
        if self.is_quiet:
            return set()
        changed = set(claims)
        found = (*self._reported.values(), *self._suspected.values(), *self._ending.values())
        return {key for holders in found if holders & changed for key in holders}

    def reached(self, version: str) -> None:
        """The watch of claims has reached a version."""
        if version.isdecimal():
            self._reached = max(self._reached, int(version))

    def check(self, devices: Iterable[DeviceID]) -> set[ObjectKey]:
        """Check the present holders of devices. Returns the claims of double allocations."""
        found: set[ObjectKey] = set()
        for device in [*devices, *self._suspected]:
            holders = self._store.holders(device)
            if len(holders) > 1 and is_raced(device, self._store):
                claims = frozenset(holder.claim for holder in holders)
                found |= claims
                if claims in (self._reported.get(device), self._ending.get(device)):
                    continue
                if any(self._is_assumed(claim) or self._is_ahead_of_watch(claim) for claim in claims):
                    self._suspected[device] = claims
                else:
                    self._alarm(device, claims)
            elif self._reported or self._suspected:
                self._reported.pop(device, None)
                self._suspected.pop(device, None)
        return found

    def confirm(self, suspected: Mapping[DeviceID, frozenset[ObjectKey]]) -> None:
        """Report those that are still suspected: the watch had time to catch up."""
        for device, claims in suspected.items():
            if self._suspected.get(device) == claims and not any(map(self._is_assumed, claims)):
                self._alarm(device, claims)

    @contextmanager
    def ended_by(self, claim: ObjectKey) -> Iterator[None]:
        """Surrounds the write that frees a claim with suspected double allocations.

        A successful write proves that the claim held its devices, so the suspected ones are reported.
        """
        doubles = {device: claims for device, claims in self._suspected.items() if claim in claims}
        self._suspected = {device: c for device, c in self._suspected.items() if device not in doubles}
        self._ending |= doubles
        try:
            yield
        except BaseException:
            self._suspected |= doubles
            raise
        else:
            for device, claims in doubles.items():
                self._report(decisions.HeldTwice(device, tuple(sorted(claims))))
        finally:
            for device in doubles:
                del self._ending[device]

    def _alarm(self, device: DeviceID, claims: frozenset[ObjectKey]) -> None:
        self._suspected.pop(device, None)
        self._reported[device] = claims
        self._report(decisions.HeldTwice(device, tuple(sorted(claims))))

    def _is_assumed(self, key: ObjectKey) -> bool:
        """Whether a claim holds by a plan of ours alone: a new leader may have given the device meanwhile."""
        claim = self._store.claims.get(key)
        return claim is not None and claim.allocation is None

    def _is_ahead_of_watch(self, key: ObjectKey) -> bool:
        """Whether a claim is known in a version that the watch has not reached."""
        claim = self._store.claims.get(key)
        version = claim.metadata.resource_version if claim is not None else ""
        return version.isdecimal() and int(version) > self._reached


class Auditor:
    """Audits the whole snapshot after changes, also while nothing is decided."""

    def __init__(
        self, changed: asyncio.Event, store: Store, report: Report, seconds: float, audit: Audit
    ) -> None:
        """`seconds` is the minimum time between two audits: changes come in bursts."""
        self._audit = audit
        self._changed = changed
        self._store = store
        self._report = report
        self._seconds = seconds
        self._exclusion = ExclusionAudit(report)
        self._over: dict[Key, Overcommitted] = {}
        self._lost: set[tuple[DeviceID, str, tuple[str, ...]]] = set()

    async def run(self) -> None:
        """Audit after every change, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            await build_ahead(self._store)
            self.check()
            suspected = self._audit.suspected
            await asyncio.sleep(self._seconds)
            self._audit.confirm(suspected)

    def check(self) -> None:
        """Report new findings."""
        snapshot = self._store.snapshot()
        self._exclusion.check(snapshot)
        before, self._over = self._over, overcommitted(snapshot)
        for key, one in self._over.items():
            if before.get(key) != one:
                self._report(decisions.OverCommitted(key.pool, key.counter_set, one.short, one.claims))
        for key in sorted(before.keys() - self._over.keys()):
            self._report(decisions.NoLongerOverCommitted(key.pool, key.counter_set))
        lost = {
            (DeviceID(*pool, gone.device), gone.counter_set, gone.counters)
            for pool, overcharge in snapshot.occupancy.overcharges.items()
            for gone in overcharge.lost
        }
        for device, counter_set, counters in sorted(lost - self._lost):
            claims = tuple(sorted(snapshot.occupancy.claims_of(device)))
            self._report(decisions.Uncharged(device, counter_set, counters, claims))
        self._lost = lost
