"""Keeps units waiting until the watch of claims shows what was written for them."""

from collections.abc import Iterable
from typing import Protocol

from reconciler.api.objects.claims import ResourceClaim
from reconciler.control.queueing.units import Unit

WATCH_PATIENCE = 1.0
"""Seconds for which gates are kept because the watch of claims is behind"""


class Put(Protocol):
    """Queues a unit, to be taken after so many seconds."""

    def __call__(self, unit: Unit, *, after: float = 0.0) -> None:
        """See above."""


class WatchLag:
    """How far the watch of claims is behind, and which units wait for it."""

    def __init__(self, put: Put) -> None:
        self._put = put
        self._shown = 0
        """The newest version that the watch of claims has shown"""
        self._unshown: dict[Unit, tuple[int, float]] = {}
        """Units that wait until it shows a version, and until when"""

    def shown(self, version: str) -> None:
        """The watch of claims has shown a version, perhaps in an event that says nothing new."""
        if version.isdecimal() and int(version) > self._shown:
            self._shown = int(version)
            for unit in [unit for unit, (until, _) in self._unshown.items() if until <= self._shown]:
                del self._unshown[unit]
                self._put(unit)

    def awaits(self, unit: Unit, claims: Iterable[ResourceClaim], now: float) -> bool:
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
        self._put(unit, after=until - now)
        return True
