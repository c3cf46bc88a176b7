"""What is wrong with what is held, whoever is to blame: looked for all the time, told once.

The API does not prevent it: another allocator, or a reconciler that was cut off from the cluster, can
give a device twice at any time. `races` says what is undone; of the rest somebody has to take care.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.control.audit.exclusion import ExclusionAudit
from reconciler.control.audit.losing_claim import is_raced
from reconciler.control.build_ahead import build_ahead
from reconciler.control.decisions.decisions import (
    HeldTwice,
    NoLongerOverCommitted,
    OverCommitted,
    Report,
    Uncharged,
)
from reconciler.state.devices.occupancy.overcommitted import Overcommitments
from reconciler.state.store import Store


class Audit:
    """Looks at every device whose holders changed, and tells of each double one once.

    Claims are also known by the answers to our requests, and so before the watch tells what came earlier: who
    seems to hold the device as well may be gone long since. Until the watch is as far, a double is suspected.
    """

    def __init__(self, store: Store, report: Report) -> None:
        self._store = store
        self._report = report
        self._told: dict[DeviceID, frozenset[ObjectKey]] = {}
        self._suspected: dict[DeviceID, frozenset[ObjectKey]] = {}
        self._ending: dict[DeviceID, frozenset[ObjectKey]] = {}
        self._reached = 0

    @property
    def doubles(self) -> int:
        """Devices that are held twice, as far as they were looked at."""
        return len(self._told)

    @property
    def suspected(self) -> dict[DeviceID, frozenset[ObjectKey]]:
        """Devices that seem to be held twice, and by whom. A copy."""
        return dict(self._suspected)

    def beside(self, claims: Iterable[ObjectKey]) -> set[ObjectKey]:
        """The claims that hold a device together with one of these, these included."""
        if not self._told and not self._suspected and not self._ending:
            return set()
        changed = set(claims)
        found = (*self._told.values(), *self._suspected.values(), *self._ending.values())
        return {key for holders in found if holders & changed for key in holders}

    def reached(self, version: str) -> None:
        """The watch of claims is as far as a version."""
        if version.isdecimal():
            self._reached = max(self._reached, int(version))

    def look(self, devices: Iterable[DeviceID]) -> set[ObjectKey]:
        """Check devices as they are held now. Returns the claims that hold one of them twice."""
        found: set[ObjectKey] = set()
        for device in [*devices, *self._suspected]:
            holders = self._store.holders(device)
            if len(holders) > 1 and is_raced(device, self._store):
                claims = frozenset(holder.claim for holder in holders)
                found |= claims
                if claims in (self._told.get(device), self._ending.get(device)):
                    continue
                if any(self._is_ahead(claim) for claim in claims):
                    self._suspected[device] = claims
                else:
                    self._alarm(device, claims)
            elif self._told or self._suspected:
                self._told.pop(device, None)
                self._suspected.pop(device, None)
        return found

    def confirm(self, suspected: Mapping[DeviceID, frozenset[ObjectKey]]) -> None:
        """Tell of those that are suspected still: the watch had time to say otherwise."""
        for device, claims in suspected.items():
            if self._suspected.get(device) == claims:
                self._alarm(device, claims)

    @contextmanager
    def ended_by(self, claim: ObjectKey) -> Iterator[None]:
        """While a claim lets go of what it seems to hold beside others.

        That it could is the proof that it held it, so what was suspected is told of, although it is over.
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
        self._told[device] = claims
        self._report(HeldTwice(device, tuple(sorted(claims))))

    def _is_ahead(self, key: ObjectKey) -> bool:
        """Whether a claim is known in a version that the watch has not come to."""
        claim = self._store.claims.get(key)
        version = claim.metadata.resource_version if claim is not None else ""
        return version.isdecimal() and int(version) > self._reached


class Auditor:
    """Looks at the whole picture once it changed, also while nothing has to be decided."""

    def __init__(
        self, changed: asyncio.Event, store: Store, report: Report, seconds: float, audit: Audit
    ) -> None:
        """`seconds` is the least time between two looks: changes come in bursts."""
        self._audit = audit
        self._changed = changed
        self._store = store
        self._report = report
        self._seconds = seconds
        self._exclusion = ExclusionAudit(report)
        self._over = Overcommitments()
        self._lost: set[tuple[DeviceID, str, tuple[str, ...]]] = set()

    async def run(self) -> None:
        """Look after every change, for ever."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            await build_ahead(self._store)
            self.look()
            suspected = self._audit.suspected
            await asyncio.sleep(self._seconds)
            self._audit.confirm(suspected)

    def look(self) -> None:
        """Tell what is found that was not told before."""
        snapshot = self._store.snapshot()
        self._exclusion.look(snapshot)
        found, ended = self._over.follow(snapshot)
        for one in found:
            self._report(OverCommitted(one.key.pool, one.key.counter_set, one.short, one.claims))
        for key in ended:
            self._report(NoLongerOverCommitted(key.pool, key.counter_set))
        lost = {
            (DeviceID(*pool, gone.device), gone.counter_set, gone.counters)
            for pool, excess in snapshot.occupancy.excess.items()
            for gone in excess.lost
        }
        for device, counter_set, counters in sorted(lost - self._lost):
            claims = tuple(sorted(snapshot.occupancy.claims_of(device)))
            self._report(Uncharged(device, counter_set, counters, claims))
        self._lost = lost
