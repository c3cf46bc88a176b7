"""The interface to an API server: what is sent, what comes back, what a refusal means, and who may stop a
write.

HTTP is in `reconciler.cluster.http`, which is slow to import and therefore apart.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import KW_ONLY, dataclass
from typing import Any, Protocol

import structlog
from msgspec import Struct
from pydantic_core import from_json

from reconciler import errors

log = structlog.get_logger()

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
    body: Any = None
    """A JSON value; None if there is no body"""
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
        `reconciler.cluster.transport.refusal` for a status other than 200.
        """


LONGEST_WAIT = 300.0
"""Limit of Retry-After in seconds: the clock of the server may be wrong."""

LONGEST_MESSAGE = 2_000
"""Characters of a server's message. Some repeat a whole object"""

READS = frozenset({"GET", "HEAD"})
_WITHOUT_RIGHT = re.compile(r': User "[^"]*" cannot ')
"""What an API server says of a user who lacks a right. Policies and webhooks use other words"""
BUDGET = "DisruptionBudget"
"""The cause that an API server gives if a budget does not allow an eviction"""


def refusal(method: str, path: str, response: Response) -> errors.ReconcilerError:
    """The error for a response outside 200 to 299. Its message contains that of the server.

    A server that failed (500, 502, 504) may have applied the write; one that is too busy (429, 503) has
    not started it. 409 also means that an object exists already. 401 ends when credentials are refreshed.
    """
    status = _status(response)
    said = str(status.get("message") or status.get("reason") or "")[:LONGEST_MESSAGE]
    remedy = _remedy(response.status, said)
    message = f"{method} {path}: {response.status} {said}".rstrip() + (f": {remedy}" if remedy else "")
    after = _seconds(response, status)
    match response.status:
        case 404:
            return errors.Gone(message)
        case 409:
            return errors.Conflict(message)
        case 410:
            return errors.Relist(message)
        case 429 if any(isinstance(one, dict) and one.get("reason") == BUDGET for one in _causes(status)):
            return errors.Protected(message, after=after)
        case 401 | 408 | 429 | 503:
            return errors.Retry(message, after=after, busy=response.status != 401)
        case code if code >= 500:
            return (errors.Retry if method in READS else errors.Undecided)(message, after=after, busy=True)
    return errors.Rejected(message)


def _remedy(code: int, said: str) -> str:
    """What helps against a refusal for lack of rights; empty for others, such as those of policies."""
    if code == 401:
        return "renew the credentials, or use others (kubectl auth whoami shows them)"
    if code == 403 and _WITHOUT_RIGHT.search(said):
        return "grant it this right, or use other credentials (kubectl auth can-i --list shows its rights)"
    return ""


def _status(response: Response) -> dict[str, Any]:
    """The Status object. Proxies and unknown paths respond with plain text."""
    try:
        status = from_json(response.body)
    except ValueError:
        status = None
    return (
        status
        if isinstance(status, dict)
        else {"message": response.body[:200].decode(errors="replace").strip()}
    )


def _causes(status: dict[str, Any]) -> list[Any]:
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    return causes if isinstance(causes, list) else []


def _seconds(response: Response, status: dict[str, Any]) -> float:
    """The delay that the server requests. Dates are ignored: it never sends them."""
    details = status.get("details")
    delay = response.headers.get("Retry-After", "")
    if not (delay.isascii() and delay.isdigit()):
        delay = str(details.get("retryAfterSeconds", "")) if isinstance(details, dict) else ""
    return min(float(delay), LONGEST_WAIT) if delay.isascii() and delay.isdigit() else 0.0


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


LONGEST_PAUSE = 10.0
"""Seconds"""


class PatientTransport:
    """For questions at the start: sends them again while the server is busy, fails or is late.

    One that cannot be reached at all raises Retry as usual: its address may be wrong.
    """

    def __init__(self, behind: Transport) -> None:
        self._behind = behind

    async def send(self, request: Request) -> Response:
        """See `Transport.send`. Nothing that is sent may change anything."""
        pause = 1.0
        while True:
            try:
                response = await self._behind.send(request)
                error = refusal(request.method, request.path, response) if response.status >= 400 else None
                if not isinstance(error, errors.Retry):
                    return response
            except errors.Retry as exc:
                error = exc
            if not error.busy:
                raise error
            seconds = max(pause, error.after)
            log.warning("API server is busy, start delayed", error=str(error), pause=seconds)
            await asyncio.sleep(seconds)
            pause = min(2 * pause, LONGEST_PAUSE)

    def stream(self, request: WatchRequest) -> Lines:
        return self._behind.stream(request)


def never(path: str) -> None:
    """The check of a process that must not write. Raises Rejected."""
    raise errors.Rejected(f"shadow mode writes nothing: {path} was not sent")


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
            raise errors.Paused(f"writes are paused: {self}")
