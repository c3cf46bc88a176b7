"""The interface to an API server: bytes out, bytes in.

HTTP is in `reconciler.cluster.http`, which is slow to import and therefore apart.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import KW_ONLY, dataclass
from typing import Protocol

from msgspec import Struct

Query = Sequence[tuple[str, str]]
Lines = AbstractAsyncContextManager[AsyncIterator[bytes]]
"""The complete lines of an open response, without line ends."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request with a finite response."""

    method: str
    path: str
    _: KW_ONLY
    query: Query = ()
    body: bytes | None = None
    content_type: str = "application/json"
    timeout: float
    """Seconds from sending it to the last byte of its response."""


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """A GET with an endless response."""

    path: str
    _: KW_ONLY
    query: Query = ()
    idle: float
    """Seconds of silence after which the connection counts as broken."""


class Response(Struct, frozen=True):
    """A response of any status."""

    status: int
    headers: Mapping[str, str]
    """Must find `Retry-After` in any upper or lower case, if the server sent it."""
    body: bytes


class Transport(Protocol):
    """Sends requests. Raises one of our errors if there is no response. Never retries."""

    async def send(self, request: Request) -> Response:
        """Send one request and read its whole response, within the timeout of the request.

        Raises Retry if the server certainly did not apply the request, Undecided if it may have.
        Cancelled: the server may have applied a write.
        """

    def stream(self, request: WatchRequest) -> Lines:
        """Open an endless response, and read its lines.

        The lines end when the server ends them; a last line without a line end is dropped. Raises Retry
        if the connection breaks or is idle for too long, and the error of
        `reconciler.cluster.answers.refusal` for a status other than 200.
        """
