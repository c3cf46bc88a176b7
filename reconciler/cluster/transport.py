"""The one seam between us and an API server: bytes out, bytes in.

HTTP is in `reconciler.cluster.http`, which is slow to import and therefore apart.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

Query = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Response:
    """An answer, of whatever status."""

    status: int
    headers: Mapping[str, str]
    """Must find `Retry-After` however it is spelled, if the server sent one."""
    body: bytes


class Transport(Protocol):
    """Sends requests. Says with which error class an answer failed to come, never retries."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float,  # noqa: ASYNC109 - a socket timeout tells whether anything was sent
    ) -> Response:
        """One request and its whole answer, within `timeout` seconds.

        Raises Retry when the request certainly was not applied, Undecided when it may have been.
        Cancelled: a write may have been applied.
        """

    def stream(
        self, path: str, *, query: Query, idle: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The complete lines of an answer that does not end, without their line ends.

        Ends when the server ends it; a last line without a line end is dropped. Raises Retry when
        the connection breaks or nothing comes for `idle` seconds, and what
        `reconciler.cluster.answers.refusal` makes of a status other than 200.
        """
