"""A connection pool for writes."""

import asyncio
import os
import re
import ssl
from collections.abc import Mapping
from socket import SOCK_STREAM, gaierror
from urllib.parse import quote, urlencode, urlsplit

from aiohappyeyeballs import start_connection

from reconciler.cluster.client_library import Configuration
from reconciler.cluster.transport import Request, Response
from reconciler.cluster.wire import Wire
from reconciler.errors import Rejected

IDLE_SECONDS = 15.0
"""A connection that was not used for so long is not used again: servers close theirs after a minute or so,
and a write that goes out at that very moment would be one without an answer.
"""
SECOND_ADDRESS_SECONDS = 0.25
"""Delay before the next address of a server is tried in parallel. Source: RFC 8305, section 5."""

_PLAIN = re.compile(r"[A-Za-z0-9/._~-]*").fullmatch
_UNSENDABLE = re.compile(r"[^\t\x20-\x7e]").search


class NeverSent(ConnectionError):
    """There was no connection, so nothing was sent."""


LATE = "no answer in time"
"""Why there is no answer, where the system has no words"""


def no_connection(host: str | None, port: int | None, error: OSError) -> str:
    """Why there is none, in the words of the system where it refused: asyncio repeats the address."""
    if isinstance(error, ConnectionError) and error.errno:
        why = os.strerror(error.errno)
    elif isinstance(error, gaierror):
        why = error.strerror or str(error)
    else:
        why = str(error) or (LATE if isinstance(error, TimeoutError) else type(error).__name__)
    return f"no connection to {host}:{port}: {why}: is the server running, and is its address right?"


class Wires:
    """As many connections to one server as there are concurrent writes, up to a limit."""

    def __init__(self, configuration: Configuration, *, longest: int, connect_seconds: float) -> None:
        """`longest` limits a response, in bytes. Raises Rejected if the server is not a URL."""
        try:
            url = urlsplit(configuration.host or "")
            port = url.port
        except ValueError as exc:
            raise Rejected(f"cannot reach a cluster: {configuration.host!r}: {exc}") from exc
        self._host, self._prefix = url.hostname or "", url.path.rstrip("/")
        self._tls = verifying(configuration) if url.scheme == "https" else None
        self._name = configuration.tls_server_name or self._host if self._tls else None
        self._port = port or (443 if self._tls else 80)
        self._authority = url.netloc.rpartition("@")[2]
        self._longest = longest
        self._connect_seconds = connect_seconds
        self._free = asyncio.Semaphore(configuration.connection_pool_maxsize)
        self._idle: list[tuple[Wire, float]] = []
        self._closed = False

    async def send(self, request: Request, headers: Mapping[str, str], deadline: float) -> Response:
        """Send a request once with these headers, and wait for its response.

        The `deadline`, by the loop's clock, counts in place of the request's timeout: renewing credentials
        may have used some of that.

        Raises NeverSent, and Rejected for headers that cannot be sent; any other OSError, a timeout among
        them, leaves open whether the server took the request. Cancelled, the connection is closed, so
        that its answer is not taken for another's.
        """
        message = self._message(request, headers)
        wire = await self._take(deadline)
        try:
            response = await wire.exchange(message, deadline)
        except BaseException:
            wire.abort()
            raise
        else:
            if self._closed:
                wire.abort()
            elif wire.usable:
                self._idle.append((wire, asyncio.get_running_loop().time()))
            return response
        finally:
            self._free.release()

    def close(self) -> None:
        """Close idle connections now, and the others after their response."""
        self._closed = True
        for wire, _ in self._idle:
            wire.abort()
        self._idle.clear()

    def _message(self, request: Request, headers: Mapping[str, str]) -> bytes:
        path, body = request.path, request.body or b""
        target = self._prefix + (path if _PLAIN(path) else quote(path))
        if request.query:
            target += "?" + urlencode(request.query)
        lines = [f"{request.method} {target} HTTP/1.1", f"Host: {self._authority}"]
        for name, value in headers.items():
            if _UNSENDABLE(value):
                raise Rejected(f"the header {name} cannot be sent: it has a line break, or is not ASCII")
            lines.append(f"{name}: {value}")
        lines += [f"Content-Length: {len(body)}", "\r\n"]
        return "\r\n".join(lines).encode("ascii") + body

    async def _take(self, deadline: float) -> Wire:
        """A connection for exclusive use. The caller releases `_free` afterwards."""
        try:
            if self._free.locked():
                async with asyncio.timeout_at(deadline):
                    await self._free.acquire()
            else:  # does not wait
                await self._free.acquire()
        except TimeoutError as exc:
            raise NeverSent("all connections were busy") from exc
        try:
            return self._kept() or await self._fresh(deadline)
        except BaseException:
            self._free.release()
            raise

    def _kept(self) -> Wire | None:
        oldest = asyncio.get_running_loop().time() - IDLE_SECONDS
        while self._idle:
            wire, since = self._idle.pop()  # the last one used, so that the others expire
            if wire.usable and since > oldest:
                return wire
            wire.abort()
        return None

    async def _fresh(self, deadline: float) -> Wire:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(min(deadline, loop.time() + self._connect_seconds)):
                found = await loop.getaddrinfo(self._host, self._port, type=SOCK_STREAM)
                # The loop's own happy eyeballs leak a socket if cancelled at the wrong moment.
                sock = await start_connection(found, happy_eyeballs_delay=SECOND_ADDRESS_SECONDS)
                _, wire = await loop.create_connection(
                    lambda: Wire(self._longest), sock=sock, ssl=self._tls, server_hostname=self._name
                )
        except OSError as exc:  # includes timeouts and invalid certificates
            raise NeverSent(no_connection(self._host, self._port, exc)) from exc
        return wire


def verifying(configuration: Configuration) -> ssl.SSLContext:
    """The TLS settings of the client library: verification of the server, and our certificate."""
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.disable_strict_ssl_verification:
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
