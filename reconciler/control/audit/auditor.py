"""Audits allocations of all allocators continuously, and reports each finding once.

The API does not prevent double allocation: another allocator, or a reconciler that was disconnected, can
allocate a device twice. `losing_claim` says which claims are freed; operators must fix the rest.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.control.audit.exclusion import ExclusionAudit
from reconciler.control.audit.losing_claim import is_raced
from reconciler.control.build_ahead import build_ahead
from reconciler.control.decisions.decision import Report
from reconciler.control.decisions.findings import HeldTwice, NoLongerOverCommitted, OverCommitted, Uncharged
from reconciler.state.devices.occupancy.overcommitted import Overcommitments
from reconciler.state.store import Store


class Audit:
    """Checks every device whose holders changed, and reports each double allocation once.

    Answers to our requests show claims in later versions than the watch has reached, so the other holder may
    be deleted already. A double allocation is only suspected until the watch has reached that version.
    """

    def __init__(self, store: Store, report: Report) -> None:
        self._store = store
        self._report = report
        self._reported: dict[DeviceID, frozenset[ObjectKey]] = {}
        self._suspected: dict[DeviceID, frozenset[ObjectKey]] = {}
        self._ending: dict[DeviceID, frozenset[ObjectKey]] = {}
        self._reached = 0

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
                if any(self._is_ahead_of_watch(claim) for claim in claims):
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
            if self._suspected.get(device) == claims:
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
                self._report(HeldTwice(device, tuple(sorted(claims))))
        finally:
            for device in doubles:
                del self._ending[device]

    def _alarm(self, device: DeviceID, claims: frozenset[ObjectKey]) -> None:
        self._suspected.pop(device, None)
        self._reported[device] = claims
        self._report(HeldTwice(device, tuple(sorted(claims))))

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
        self._over = Overcommitments()
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
        found, ended = self._over.follow(snapshot)
        for one in found:
            self._report(OverCommitted(one.key.pool, one.key.counter_set, one.short, one.claims))
        for key in ended:
            self._report(NoLongerOverCommitted(key.pool, key.counter_set))
        lost = {
            (DeviceID(*pool, gone.device), gone.counter_set, gone.counters)
            for pool, overcharge in snapshot.occupancy.overcharges.items()
            for gone in overcharge.lost
        }
        for device, counter_set, counters in sorted(lost - self._lost):
            claims = tuple(sorted(snapshot.occupancy.claims_of(device)))
            self._report(Uncharged(device, counter_set, counters, claims))
        self._lost = lost
