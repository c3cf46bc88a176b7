"""Logs what a candidate waits for before it may lead, once for each wait."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import structlog

from reconciler.ha.elector import Elector
from reconciler.ha.lease_reading import shown

log = structlog.get_logger()


class WaitLog:
    """Looks at a candidate after each of its steps."""

    def __init__(self, elector: Elector, now: Callable[[], datetime]) -> None:
        """`now` returns the time of day with its zone."""
        self._elector = elector
        self._now = now
        self._logged: tuple[str, float] | None = None

    def note(self, at: float) -> None:
        """Log a new wait. `at` is the present time by the clock of the candidate."""
        elector = self._elector
        lease, left = elector.shard.lease, elector.clear_at - at
        if not elector.holds(at):
            holder = elector.holder
            if holder and self._is_new((holder, 0.0)):
                log.info(
                    "standby, another process holds the lease",
                    lease=lease,
                    holder=shown(holder),
                    wait_seconds=round(elector.expires_in(at), 1),
                )
        elif left > 0 and elector.alone and self._is_new(("", elector.clear_at)):
            log.info(
                "waiting before allocation starts",
                lease=lease,
                why=elector.clear_of,
                wait_seconds=round(left, 1),
                until=_shown(self._now() + timedelta(seconds=left)),
            )

    def _is_new(self, wait: tuple[str, float]) -> bool:
        before, self._logged = self._logged, wait
        return wait != before


def _shown(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
