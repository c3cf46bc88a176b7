"""A transport that lets only the leader write, and only while its lease outlasts the write."""

from asyncio import CancelledError
from collections.abc import Callable

from reconciler.cluster.transport import (
    LEASES,
    QUESTIONS,
    READS,
    Lines,
    Request,
    Response,
    Transport,
    WatchRequest,
)
from reconciler.errors import Retry, Undecided
from reconciler.ha.elector import Elector


class FencedTransport:
    """Starts no write that may outlast the lease, and keeps track of unanswered writes."""

    def __init__(self, behind: Transport, elector: Elector, clock: Callable[[], float]) -> None:
        """`clock` counts seconds."""
        self._behind = behind
        self._elector = elector
        self._clock = clock
        self.quiet_at = float("-inf")
        """When unanswered writes can no longer arrive"""

    async def send(self, request: Request) -> Response:
        """See `Transport.send`. Raises Retry for a write that must not start; nothing was sent then."""
        path = request.path
        passes = request.method in READS or path.startswith((*QUESTIONS, LEASES))
        is_event = not passes and _is_event(path)
        if not passes:
            self._check(path, 0.0 if is_event else request.timeout)
        deadline = self._clock() + request.timeout
        settled = passes or is_event
        try:
            response = await self._behind.send(request)
        except (Undecided, CancelledError):
            raise
        except Retry:
            settled = True
            raise
        else:
            settled = settled or response.status < 500  # a server that failed may still apply it
            return response
        finally:
            if not settled:
                self.quiet_at = max(self.quiet_at, deadline + self._elector.terms.write)

    def stream(self, request: WatchRequest) -> Lines:
        """See `Transport.stream`."""
        return self._behind.stream(request)

    def _check(self, path: str, seconds: float) -> None:
        now, elector = self._clock(), self._elector
        if elector.may_write(now, seconds):
            return
        why = "it was not renewed in time" if elector.leads(now) else "another process leads"
        raise Retry(f"{path}: the lease does not outlast this write: {why}", after=elector.terms.retry)


def _is_event(path: str) -> bool:
    """Whether a path is of Events: only the leader writes them, but they allocate nothing."""
    return "/events/" in path or path.endswith("/events")
