"""Serves the status port: address, access control, limits on connections, and a certificate from files.

A new connection replaces the oldest one without a request. Otherwise idle connections could block the
kubelet, which restarts a pod that does not answer its probes.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Never

import structlog
from aiohttp import web
from msgspec import Struct

from reconciler.cluster.client import Client
from reconciler.errors import Rejected
from reconciler.operations.serving.access import Access, Review, Token, is_loopback, local_only
from reconciler.operations.serving.port import MALFORMED, StatusPort
from reconciler.settings import Settings

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

MAX_CONNECTIONS = 256
"""Connections after the TLS handshake, which has its own timeout of `MAX_SECONDS`"""
MAX_SECONDS = 10.0
"""From the start of a connection, or the previous response, until a request with its headers is complete"""
MAX_HEADERS = 48
"""Headers of a request, each of at most `MAX_LINE` bytes"""
MAX_LINE = 8190


class Limits(Struct, frozen=True):
    """Limits of all connections."""

    connections: int = MAX_CONNECTIONS
    seconds: float = MAX_SECONDS


QUIET_SECONDS = 60.0
"""From a line about malformed requests until the next one"""


class _Connection(web.RequestHandler):
    """Repeats nothing of a malformed request, neither to its sender nor to the log.

    aiohttp quotes the invalid bytes in both, and they may be a token in a header that a proxy has spoiled.
    """

    def __init__(self, server: "LimitedServer", **options: Any) -> None:
        super().__init__(server, **options)
        self._refused = server.refused

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """See `web.RequestHandler`."""
        return super().handle_error(request, status, exc, message and f"{MALFORMED}\n")

    def log_exception(self, *_: Any, exc_info: Any = None, **__: Any) -> None:
        """See `web.RequestHandler`."""
        self._refused(type(exc_info).__name__)


class LimitedServer(web.Server):
    """An HTTP server that closes connections beyond the limits."""

    def __init__(self, handler: Handler, limits: Limits) -> None:
        """`handler` answers one request."""

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            self._answered.add(request.protocol)
            try:
                return await handler(request)
            finally:
                self._answered.discard(request.protocol)

        super().__init__(answer, handler_cancellation=True)
        self._options: dict[str, Any] = {
            "access_log": None,
            "keepalive_timeout": limits.seconds,  # also for the first request
            "max_headers": MAX_HEADERS,
            "max_line_size": MAX_LINE,
            "max_field_size": MAX_LINE,
        }
        self._max_connections = limits.connections
        self._open: dict[web.RequestHandler, asyncio.Transport] = {}
        self._answered: set[web.RequestHandler] = set()
        """Connections with a request in progress"""
        self._unlogged = 0
        self._quiet_until = 0.0

    def __call__(self) -> web.RequestHandler:
        """See `web.Server`."""
        return _Connection(self, loop=asyncio.get_running_loop(), **self._options)

    def refused(self, error: str) -> None:
        """Count a malformed request; log how many there were, unless a line was written a moment ago."""
        self._unlogged += 1
        now = asyncio.get_running_loop().time()
        if now >= self._quiet_until:
            log.warning("malformed status requests", refused=self._unlogged, error=error)
            self._unlogged, self._quiet_until = 0, now + QUIET_SECONDS

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """See `web.Server`."""
        super().connection_made(handler, transport)
        self._open[handler] = transport
        if len(self._open) > self._max_connections:
            # The oldest without a request. If all others have one, this is the new connection itself.
            idle = next(each for each in self._open if each not in self._answered)
            self._open.pop(idle).abort()

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """See `web.Server`."""
        super().connection_lost(handler, exc)
        self._open.pop(handler, None)


RENEWED_SECONDS = 10.0
"""Interval between checks of the files. Certificates are renewed days before they expire."""


class Certificate:
    """A server context that reloads its certificate from files; new connections use the new certificate."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises Rejected if the files are not a certificate and its key."""
        self._files = (certificate, key)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._stamps = self._look()
        self._load()

    def renew(self) -> bool:
        """Load the files if they changed. If that raises Rejected, the old certificate stays in use."""
        stamps = self._look()
        if stamps == self._stamps:
            return False
        # Try the pair in a separate context: the one in use must not get half a pair.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*self._files)
        self._load()
        self._stamps = stamps
        return True

    async def follow(self, every: float = RENEWED_SECONDS) -> Never:
        """Reload whenever the files change, until cancelled."""
        failing = False
        while True:
            await asyncio.sleep(every)
            try:
                if self.renew():
                    log.info("status port certificate reloaded", file=str(self._files[0]))
                failing = False
            except (Rejected, OSError) as exc:  # errors of ssl are OSErrors
                if not failing:
                    log.warning("status port certificate not reloaded", error=str(exc))
                failing = True

    def _look(self) -> tuple[tuple[int, int], ...]:
        try:
            found = [file.stat() for file in self._files]
        except OSError as exc:
            raise Rejected(f"certificate of the status port: {exc.filename}: {exc.strerror}") from exc
        return tuple((one.st_mtime_ns, one.st_ino) for one in found)

    def _load(self) -> None:
        try:
            self.context.load_cert_chain(*self._files)
        except OSError as exc:
            where = " and ".join(map(str, self._files))
            raise Rejected(f"certificate of the status port: {where}: {exc}") from exc


log = structlog.get_logger()

LIMITS = Limits()
_SHUTDOWN_SECONDS = 1.0


def access_for(settings: Settings, client: Client, clock: Callable[[], float]) -> Access:
    """The access control of the settings. Raises Rejected if there would be none on a network address."""
    if settings.status_token_file is not None and settings.status_token_review:
        raise Rejected("set only one of status_token_file and status_token_review")
    if settings.status_token_file is not None:
        return Token(settings.status_token_file).check
    if settings.status_token_review:
        return Review(client, clock).check
    if not is_loopback(settings.status_address):
        raise Rejected(
            f"the status port needs access control on {settings.status_address}: set status_token_file or "
            "status_token_review"
        )
    return local_only


@asynccontextmanager
async def serving(
    port: StatusPort, settings: Settings, *, now: Callable[[], datetime], limits: Limits = LIMITS
) -> AsyncIterator[str]:
    """Serve a port while the block runs; yields its URL.

    Raises Rejected if the address or the certificate cannot be used.
    """
    certificate = _certificate(settings)
    context: ssl.SSLContext | None = certificate.context if certificate is not None else None
    if context is None and not is_loopback(settings.status_address):
        from reconciler.operations.serving.self_signed import self_signed  # noqa: PLC0415 - seldom needed

        context = self_signed(settings.status_address, now)
    server = LimitedServer(port.handle, limits)
    following = asyncio.create_task(certificate.follow()) if certificate is not None else None
    try:
        try:
            listening = await asyncio.get_running_loop().create_server(
                server,
                settings.status_address,
                settings.status_port,
                ssl=context,
                ssl_handshake_timeout=limits.seconds if context is not None else None,
            )
        except OSError as exc:
            where = f"{settings.status_address} port {settings.status_port}"
            why = (exc.strerror or str(exc)).rpartition("): ")[2]  # asyncio says before which address it is
            raise Rejected(
                f"the status port cannot listen on {where}: {why}; set another --status-port, "
                "for `dashboard` another --port"
            ) from exc
        try:
            yield _url(listening.sockets[0].getsockname(), tls=context is not None)
        finally:
            listening.close()
            server.pre_shutdown()
            await server.shutdown(_SHUTDOWN_SECONDS)
    finally:
        if following is not None:
            following.cancel()


def _certificate(settings: Settings) -> Certificate | None:
    match settings.status_tls_cert, settings.status_tls_key:
        case None, None:
            return None
        case cert, key if cert is not None and key is not None:
            return Certificate(cert, key)
    raise Rejected("set both status_tls_cert and status_tls_key")


def _url(bound: tuple[str, int], *, tls: bool) -> str:
    host, number = bound[:2]
    host = f"[{host}]" if ":" in host else host
    return f"{'https' if tls else 'http'}://{host}:{number}"
