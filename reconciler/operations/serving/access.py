"""Access to the status port: from this machine, with a token, or by the RBAC rules of the cluster."""

import hmac
import ipaddress
from pathlib import Path
from typing import Protocol

from aiohttp import web

from reconciler.errors import Rejected

LONGEST_TOKEN = 16 * 1024
"""Bytes. Tokens of service accounts have about 1,000."""


class Denied(Exception):
    """The request is rejected with an HTTP status."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


class Access(Protocol):
    """Allows or denies requests."""

    async def check(self, request: web.BaseRequest) -> None:
        """Return if the request is allowed. Raises Denied otherwise."""


class Local:
    """Allows requests from this machine, for loopback host names only: a page in a local browser may resolve
    its own name to this address (DNS rebinding).
    """

    async def check(self, request: web.BaseRequest) -> None:
        """See `Access.check`."""
        if not is_loopback(_host(request.host)):
            raise Denied(403, "forbidden: use localhost as the host name")


class Token:
    """Allows requests with the token of a file. The file is read again when it changes."""

    def __init__(self, file: Path) -> None:
        """Raises Rejected if the file has no token."""
        self._file = file
        self._stamp: tuple[int, int] = (0, 0)
        self._token = b""
        self._read()

    async def check(self, request: web.BaseRequest) -> None:
        """See `Access.check`."""
        try:
            self._read()
        except Rejected as exc:
            raise Denied(503, "the token of the status port cannot be read; see status_token_file") from exc
        if not hmac.compare_digest(bearer(request).encode(), self._token):
            raise unauthorized()

    def _read(self) -> None:
        try:
            found = self._file.stat()
            stamp = (found.st_mtime_ns, found.st_size)
            if stamp != self._stamp:
                self._token = self._file.read_bytes().strip()
                self._stamp = stamp
        except OSError as exc:
            raise Rejected(f"status_token_file {self._file}: {exc.strerror}") from exc
        if not self._token or len(self._token) > LONGEST_TOKEN:
            raise Rejected(f"status_token_file {self._file}: must hold a token of 1 to {LONGEST_TOKEN} bytes")


def bearer(request: web.BaseRequest) -> str:
    """The bearer token of a request. Raises Denied if there is none."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or len(token) > LONGEST_TOKEN:
        raise unauthorized()
    return token


def unauthorized() -> Denied:
    """The response to a missing or wrong token. It does not tell which."""
    return Denied(401, "unauthorized", {"WWW-Authenticate": "Bearer"})


def is_loopback(host: str) -> bool:
    """Whether a name or address is a loopback one."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _host(header: str) -> str:
    """The host without port and brackets."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]
