"""Why writes are paused, and the check that stops them."""

from reconciler.cluster.guard import LEASES
from reconciler.errors import Paused


class PauseReasons:
    """Why writes are paused. Shared by the guarded transport and the loop."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._reasons)

    def __str__(self) -> str:
        """The reasons, for people; empty while writes are enabled."""
        return "; ".join(self._reasons.values())

    def set(self, source: str, reason: str) -> None:
        """Set the reason of one source; empty to resume. Writes are paused while any source has a reason."""
        if reason:
            self._reasons[source] = reason
        else:
            self._reasons.pop(source, None)

    def check(self, path: str = "") -> None:
        """Raise Paused unless writes are enabled, or the write renews a Lease."""
        if self._reasons and not path.startswith(LEASES):
            raise Paused(f"writes are paused: {self}")
