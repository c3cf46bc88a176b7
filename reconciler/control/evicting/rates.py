"""How many evictions are allowed now. Source: MAKE-9."""

from collections import deque

MINUTE, HOUR = 60.0, 3600.0


class Rates:
    """Counts evictions. After a restart it starts with an empty count."""

    def __init__(self, per_minute: int, per_hour: int) -> None:
        self._limits = ((MINUTE, per_minute), (HOUR, per_hour))
        self._times: deque[float] = deque()

    def wait(self, now: float) -> float:
        """Seconds until another eviction is allowed; 0 if it is."""
        while self._times and self._times[0] <= now - HOUR:
            self._times.popleft()
        waits = [0.0]
        for span, most in self._limits:
            if len(self._times) >= most:
                waits.append(self._times[-most] + span - now)
        return max(waits)

    def count(self, now: float) -> None:
        """An eviction was requested at this time."""
        self._times.append(now)
