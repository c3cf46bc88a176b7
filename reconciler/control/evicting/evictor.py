"""Requests evictions for all purposes: one at a time, within the rates, and never while writes are paused.

Source: MAKE-9.
"""

from collections.abc import Callable

import structlog

from reconciler.cluster.pod_writer import Evictions
from reconciler.control.decisions.declaration import Decision, Report
from reconciler.control.evicting.rates import Rates
from reconciler.control.evicting.victims import Victim
from reconciler.control.waiting import Pause
from reconciler.errors import Gone, Paused, Protected, Retry, Undecided

log = structlog.get_logger()

AGAIN, LONGEST_AGAIN = 5.0, 300.0
"""Seconds until an eviction that was not allowed is tried again, doubling"""
PAUSED = 1.0
"""Seconds until a try while writes are paused"""


class Evictor:
    """Remembers how often a pod could not be evicted, and how many were."""

    def __init__(
        self,
        evictions: Evictions,
        rates: Rates,
        pause: Pause,
        *,
        clock: Callable[[], float],
        report: Report,
    ) -> None:
        """`clock` is that of the loop; `report` gets every eviction that was granted."""
        self._evictions = evictions
        self._rates = rates
        self._pause = pause
        self._clock = clock
        self._report = report
        self._refused: tuple[str, int] = "", 0
        """Uid of a pod, and how often in a row it could not be evicted"""
        self._unanswered: tuple[str, Decision] | None = None
        """Uid of the pod whose eviction had no answer last, and what to report if it was granted"""

    def wait(self) -> float:
        """Seconds until the rates allow another eviction; 0 if they do."""
        return self._rates.wait(self._clock())

    async def evict(self, victim: Victim, granted: Decision) -> float | None:
        """Evict one pod, and report `granted` if the server agrees. Raises Rejected.

        None: the pod leaves, or is gone. Otherwise the seconds after which to try again: a budget does not
        allow it now, or there was no answer, so that it may leave all the same.
        """
        try:
            self._pause.check()
            await self._evictions.evict(victim.key, victim.uid)
        except Paused:
            return PAUSED
        except Gone:
            self.leaves(victim)
            return None
        except Retry as exc:
            if isinstance(exc, Undecided):
                self._rates.count(self._clock())
                self._unanswered = victim.uid, granted
            elif isinstance(exc, Protected):
                self._answered(victim)  # nothing was granted: if the pod leaves now, others deleted it
            delay = max(exc.after, self._back_off(victim))
            log.info("eviction not allowed now", pod=str(victim.key), error=str(exc), pause=round(delay, 3))
            return delay
        self._rates.count(self._clock())
        self._unanswered = None
        self._report(granted)
        return None

    def leaves(self, victim: Victim) -> None:
        """Report an eviction that had no answer as granted: the pod leaves, or is gone."""
        if (granted := self._answered(victim)) is not None:
            self._report(granted)

    def _answered(self, victim: Victim) -> Decision | None:
        """Wait for no answer about a pod any more. Returns what to report if it was granted."""
        uid, granted = self._unanswered or ("", None)
        if uid != victim.uid:
            return None
        self._unanswered = None
        return granted

    def _back_off(self, victim: Victim) -> float:
        uid, times = self._refused
        times = times + 1 if uid == victim.uid else 1
        self._refused = victim.uid, times
        return min(AGAIN * 2.0 ** min(times, 10), LONGEST_AGAIN)
