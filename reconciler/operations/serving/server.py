"""The status port on a socket: where it listens, with which certificate, and who is let in."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime

import structlog

from reconciler.cluster.client import Client
from reconciler.errors import Rejected
from reconciler.operations.serving.access import Access, Local, Token, is_loopback
from reconciler.operations.serving.certificates import Certificate, self_signed
from reconciler.operations.serving.port import StatusPort
from reconciler.operations.serving.review import Review
from reconciler.operations.serving.visits import Limits, Visits
from reconciler.settings import Settings

log = structlog.get_logger()

LIMITS = Limits()
_GOODBYE_SECONDS = 1.0


def access_for(settings: Settings, client: Client, clock: Callable[[], float]) -> Access:
    """Who may ask, by the settings. Raises Rejected where that would be everybody on the network."""
    if settings.status_token_file is not None and settings.status_token_review:
        raise Rejected("status_token_file and status_token_review exclude one another: choose one")
    if settings.status_token_file is not None:
        return Token(settings.status_token_file)
    if settings.status_token_review:
        return Review(client, clock)
    if not is_loopback(settings.status_address):
        raise Rejected(
            f"the status port would tell everybody who reaches {settings.status_address}: name a file with a "
            "token in status_token_file, or let the cluster decide with status_token_review"
        )
    return Local()


@asynccontextmanager
async def serving(
    port: StatusPort, settings: Settings, *, now: Callable[[], datetime], limits: Limits = LIMITS
) -> AsyncIterator[str]:
    """Serve a port while the block runs; yields its URL.

    Raises Rejected for an address or certificate that cannot be used.
    """
    certificate = _certificate(settings)
    context: ssl.SSLContext | None = certificate.context if certificate is not None else None
    if context is None and not is_loopback(settings.status_address):
        context = self_signed(settings.status_address, now)
    visits = Visits(port.handle, limits)
    following = asyncio.create_task(certificate.follow()) if certificate is not None else None
    try:
        try:
            listening = await asyncio.get_running_loop().create_server(
                visits,
                settings.status_address,
                settings.status_port,
                ssl=context,
                ssl_handshake_timeout=limits.seconds if context is not None else None,
            )
        except OSError as exc:
            where = f"{settings.status_address} port {settings.status_port}"
            raise Rejected(f"the status port cannot listen on {where}: {exc.strerror or exc}") from exc
        try:
            yield _url(listening.sockets[0].getsockname(), tls=context is not None)
        finally:
            listening.close()
            visits.pre_shutdown()
            await visits.shutdown(_GOODBYE_SECONDS)
    finally:
        if following is not None:
            following.cancel()


def _certificate(settings: Settings) -> Certificate | None:
    match settings.status_tls_cert, settings.status_tls_key:
        case None, None:
            return None
        case cert, key if cert is not None and key is not None:
            return Certificate(cert, key)
    raise Rejected("status_tls_cert and status_tls_key are a pair: give both")


def _url(bound: tuple[str, int], *, tls: bool) -> str:
    host, number = bound[:2]
    host = f"[{host}]" if ":" in host else host
    return f"{'https' if tls else 'http'}://{host}:{number}"
