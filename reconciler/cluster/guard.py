"""A transport that checks each write before it is sent."""

from collections.abc import Callable

from reconciler.cluster.answers import READS
from reconciler.cluster.transport import Lines, Request, Response, Transport, WatchRequest
from reconciler.errors import Rejected

QUESTIONS = ("/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/")
"""Paths of POST requests that store nothing"""
LEASES = "/apis/coordination.k8s.io/"


class GuardedTransport:
    """A transport that checks each write before it is sent. A write in flight is not interrupted."""

    def __init__(self, behind: Transport, check: Callable[[str], None]) -> None:
        """`check` gets the path of every write, and raises to stop it."""
        self._behind = behind
        self._check = check

    async def send(self, request: Request) -> Response:
        """See `Transport.send`. If the check raises, nothing was sent."""
        if request.method not in READS and not request.path.startswith(QUESTIONS):
            self._check(request.path)
        return await self._behind.send(request)

    def stream(self, request: WatchRequest) -> Lines:
        return self._behind.stream(request)


def never(path: str) -> None:
    """The check of a process that must not write. Raises Rejected."""
    raise Rejected(f"shadow mode writes nothing: {path} was not sent")
