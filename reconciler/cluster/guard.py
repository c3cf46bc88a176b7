"""The last door before the server: lets reads through, and writes only while it is open."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

from reconciler.cluster.answers import READS
from reconciler.cluster.transport import Query, Response, Transport
from reconciler.errors import Rejected

QUESTIONS = ("/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/")
"""Asked by POST, but nothing is stored for it."""
LEASES = "/apis/coordination.k8s.io/"


class Guarded:
    """A transport whose writes have to be let through, one by one. A write that began goes on to its end."""

    def __init__(self, behind: Transport, check: Callable[[str], None]) -> None:
        """`check` gets the path of every write, and raises for one that must not be sent."""
        self._behind = behind
        self._check = check

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float,  # noqa: ASYNC109 - see Transport
    ) -> Response:
        """As `Transport.request`; raises what the check raises, and has then sent nothing."""
        if method not in READS and not path.startswith(QUESTIONS):
            self._check(path)
        return await self._behind.request(
            method, path, query=query, body=body, content_type=content_type, timeout=timeout
        )

    def stream(
        self, path: str, *, query: Query, idle: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._behind.stream(path, query=query, idle=idle)


def never(path: str) -> None:
    """The check of who may not write at all. Raises Rejected."""
    raise Rejected(f"in shadow mode nothing is written, so {path} is left as it is")
