"""Who may ask the status port: anybody on this machine, who has a token, or whom the cluster lets."""

import hmac
import ipaddress
from pathlib import Path
from typing import Protocol

from aiohttp import web

from reconciler.errors import Rejected

LONGEST_TOKEN = 16 * 1024
"""Bytes. Tokens of service accounts have about one thousand."""


class Denied(Exception):
    """The request is not answered."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


class Access(Protocol):
    """Lets requests through, or not."""

    async def check(self, request: web.BaseRequest) -> None:
        """Return if the request may be answered. Raises Denied otherwise."""


class Local:
    """Everybody on this machine. Names other than the machine's own are refused: a page in a browser
    here may have had its name resolved to us.
    """

    async def check(self, request: web.BaseRequest) -> None:
        """See `Access.check`."""
        if not is_loopback(_host(request.host)):
            raise Denied(403, "forbidden: ask for localhost")


class Token:
    """Whoever has the token that a file holds. The file is read again when it changes."""

    def __init__(self, file: Path) -> None:
        """Raises Rejected when there is no token in the file."""
        self._file = file
        self._stamp: tuple[int, int] = (0, 0)
        self._token = b""
        self._read()

    async def check(self, request: web.BaseRequest) -> None:
        """See `Access.check`."""
        try:
            self._read()
        except Rejected as exc:
            raise Denied(503, "the token of this port cannot be read; the log says more") from exc
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
            raise Rejected(f"status_token_file {self._file}: holds no token of 1 to {LONGEST_TOKEN} bytes")


def bearer(request: web.BaseRequest) -> str:
    """The token a request comes with. Raises Denied when there is none."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or len(token) > LONGEST_TOKEN:
        raise unauthorized()
    return token


def unauthorized() -> Denied:
    """The answer to a token that is missing or wrong; which of the two is nobody's business."""
    return Denied(401, "unauthorized", {"WWW-Authenticate": "Bearer"})


def is_loopback(host: str) -> bool:
    """Whether a name or address stands for this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _host(header: str) -> str:
    """Without port and brackets."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]
