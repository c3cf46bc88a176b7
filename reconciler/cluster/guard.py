"""The last door before the server: lets reads through, and writes only while it is open."""

from collections.abc import Callable

from reconciler.cluster.answers import READS
from reconciler.cluster.transport import Lines, Request, Response, Transport, WatchRequest
from reconciler.errors import Rejected

QUESTIONS = ("/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/")
"""Asked by POST, but nothing is stored for it."""
LEASES = "/apis/coordination.k8s.io/"


class GuardedTransport:
    """A transport whose writes have to be let through, one by one. A write that began goes on to its end."""

    def __init__(self, behind: Transport, check: Callable[[str], None]) -> None:
        """`check` gets the path of every write, and raises for one that must not be sent."""
        self._behind = behind
        self._check = check

    async def send(self, request: Request) -> Response:
        """As `Transport.send`; raises what the check raises, and has then sent nothing."""
        if request.method not in READS and not request.path.startswith(QUESTIONS):
            self._check(request.path)
        return await self._behind.send(request)

    def stream(self, request: WatchRequest) -> Lines:
        return self._behind.stream(request)


def never(path: str) -> None:
    """The check of who may not write at all. Raises Rejected."""
    raise Rejected(f"in shadow mode nothing is written, so {path} is left as it is")
