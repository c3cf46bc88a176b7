"""Serves the status port: address, certificate and access control."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime

import structlog

from reconciler.cluster.client import Client
from reconciler.errors import Rejected
from reconciler.operations.serving.access import Access, Local, Token, is_loopback
from reconciler.operations.serving.certificates import Certificate
from reconciler.operations.serving.connections import LimitedServer, Limits
from reconciler.operations.serving.port import StatusPort
from reconciler.operations.serving.review import Review
from reconciler.settings import Settings

log = structlog.get_logger()

LIMITS = Limits()
_SHUTDOWN_SECONDS = 1.0


def access_for(settings: Settings, client: Client, clock: Callable[[], float]) -> Access:
    """The access control of the settings. Raises Rejected if there would be none on a network address."""
    if settings.status_token_file is not None and settings.status_token_review:
        raise Rejected("set only one of status_token_file and status_token_review")
    if settings.status_token_file is not None:
        return Token(settings.status_token_file)
    if settings.status_token_review:
        return Review(client, clock)
    if not is_loopback(settings.status_address):
        raise Rejected(
            f"the status port needs access control on {settings.status_address}: set status_token_file or "
            "status_token_review"
        )
    return Local()


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
            raise Rejected(f"the status port cannot listen on {where}: {exc.strerror or exc}") from exc
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
