"""The door by which every write leaves: open to the leader, for as long as its lease outlasts the write."""

from asyncio import CancelledError
from collections.abc import Callable

from reconciler.cluster.answers import READS
from reconciler.cluster.guard import LEASES, QUESTIONS
from reconciler.cluster.transport import Lines, Request, Response, Transport, WatchRequest
from reconciler.errors import Retry, Undecided
from reconciler.ha.elector import Elector


class FencedTransport:
    """A transport that starts no write which may outlast the lease, and knows which were not answered."""

    def __init__(self, behind: Transport, elector: Elector, clock: Callable[[], float]) -> None:
        """`clock` counts seconds."""
        self._behind = behind
        self._elector = elector
        self._clock = clock
        self.quiet_at = float("-inf")
        """When no write that was sent and not answered can arrive any more"""

    async def send(self, request: Request) -> Response:
        """As `Transport.send`. Raises Retry for a write that must not begin, and has then sent nothing."""
        path = request.path
        passes = request.method in READS or path.startswith((*QUESTIONS, LEASES))
        told = not passes and _tells(path)
        if not passes:
            self._check(path, 0.0 if told else request.timeout)
        deadline = self._clock() + request.timeout
        settled = passes or told
        try:
            response = await self._behind.send(request)
        except (Undecided, CancelledError):
            raise
        except Retry:
            settled = True
            raise
        else:
            settled = settled or response.status < 500  # a server that failed may go on with it
            return response
        finally:
            if not settled:
                self.quiet_at = max(self.quiet_at, deadline + self._elector.terms.write)

    def stream(self, request: WatchRequest) -> Lines:
        """As `Transport.stream`."""
        return self._behind.stream(request)

    def _check(self, path: str, seconds: float) -> None:
        now, elector = self._clock(), self._elector
        if elector.may_write(now, seconds):
            return
        why = "it is not renewed in time" if elector.leads(now) else "another process leads"
        raise Retry(f"{path}: the lease does not outlast this write: {why}", after=elector.terms.retry)


def _tells(path: str) -> bool:
    """Whether a path is one of Events: the leader writes them, but none gives a device away."""
    return "/events/" in path or path.endswith("/events")
