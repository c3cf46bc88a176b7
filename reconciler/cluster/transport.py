"""The one seam between us and an API server: bytes out, bytes in.

HTTP is in `reconciler.cluster.http`, which is slow to import and therefore apart.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import KW_ONLY, dataclass
from typing import Protocol

Query = Sequence[tuple[str, str]]
Lines = AbstractAsyncContextManager[AsyncIterator[bytes]]
"""The complete lines of an answer, without their line ends, for as long as it is open."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request whose answer ends."""

    method: str
    path: str
    _: KW_ONLY
    query: Query = ()
    body: bytes | None = None
    content_type: str = "application/json"
    timeout: float
    """Seconds from sending it to the last byte of its answer."""


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """A GET whose answer does not end."""

    path: str
    _: KW_ONLY
    query: Query = ()
    idle: float
    """Seconds of silence after which the connection counts as broken."""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer, of whatever status."""

    status: int
    headers: Mapping[str, str]
    """Must find `Retry-After` however it is spelled, if the server sent one."""
    body: bytes


class Transport(Protocol):
    """Sends requests. An answer that does not come is one of our errors. Never retries."""

    async def send(self, request: Request) -> Response:
        """Send one request and read its whole answer, within the request's timeout.

        Raises Retry when the server certainly did not apply the request, Undecided when it may have.
        When cancelled, the server may have applied a write.
        """

    def stream(self, request: WatchRequest) -> Lines:
        """Open an answer that does not end, and read its lines.

        The lines end when the server ends them; a last line without a line end is dropped. Raises Retry
        when the connection breaks or is idle for too long, and what
        `reconciler.cluster.answers.refusal` makes of a status other than 200.
        """
