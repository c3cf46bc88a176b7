"""Where a server is, how to connect to it, and a request as it is sent."""

import asyncio
import os
import re
import ssl
from collections.abc import Callable, Mapping
from functools import lru_cache
from socket import SOCK_STREAM, gaierror
from typing import TypeVar
from urllib.parse import quote, urlsplit

from aiohappyeyeballs import start_connection

from reconciler.cluster.client_library import Configuration
from reconciler.errors import Rejected

P = TypeVar("P", bound=asyncio.Protocol)

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


class Endpoint:
    """One server. Knows nothing of its connections."""

    def __init__(self, configuration: Configuration, *, connect_seconds: float) -> None:
        """Raises Rejected if the server is not a URL."""
        try:
            url = urlsplit(configuration.host or "")
            port = url.port
        except ValueError as exc:
            raise Rejected(f"cannot reach a cluster: {configuration.host!r}: {exc}") from exc
        self._host, self._prefix = url.hostname or "", quote(url.path.rstrip("/"), safe="/%")
        self._tls = verifying(configuration) if url.scheme == "https" else None
        # No certificate has the dot that ends an absolute name.
        self._name = (configuration.tls_server_name or self._host).rstrip(".") if self._tls else None
        self._port = port or (443 if self._tls else 80)
        self._authority = url.netloc.rpartition("@")[2]
        self._connect_seconds = connect_seconds

    async def connect(self, make: Callable[[], P], deadline: float) -> P:
        """A new connection, with the protocol that `make` returns, until the `deadline` by the loop's clock.

        Raises NeverSent.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(min(deadline, loop.time() + self._connect_seconds)):
                found = await loop.getaddrinfo(self._host, self._port, type=SOCK_STREAM)
                # The loop's own happy eyeballs leak a socket if cancelled at the wrong moment.
                sock = await start_connection(found, happy_eyeballs_delay=SECOND_ADDRESS_SECONDS)
                _, protocol = await loop.create_connection(
                    make, sock=sock, ssl=self._tls, server_hostname=self._name
                )
        except OSError as exc:  # includes timeouts and invalid certificates
            raise NeverSent(no_connection(self._host, self._port, exc)) from exc
        return protocol

    def head(self, method: str, path: str, query: str, headers: Mapping[str, str]) -> str:
        """A request until the end of these headers; the query is encoded already.

        Raises Rejected for headers that cannot be sent.
        """
        target = self._prefix + (path if _PLAIN(path) else quote(path))
        if query:
            target += f"?{query}"
        return f"{method} {target} HTTP/1.1\r\nHost: {self._authority}\r\n{_lines(tuple(headers.items()))}"


@lru_cache(8)
def _lines(headers: tuple[tuple[str, str], ...]) -> str:
    """Nearly all writes have the same headers, until the token is renewed."""
    for name, value in headers:
        if _UNSENDABLE(value):
            raise Rejected(f"the header {name} cannot be sent: it has a line break, or is not ASCII")
    return "".join([f"{name}: {value}\r\n" for name, value in headers])


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
