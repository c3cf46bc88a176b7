"""Access to the status port: from this machine, with a token, or by the RBAC rules of the cluster.

The last is as in Kubernetes components: a TokenReview, then a SubjectAccessReview for the path.
"""

import asyncio
import hashlib
import hmac
import ipaddress
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import structlog
from aiohttp import web

from reconciler.cluster.client import Client, Raw
from reconciler.cluster.kinds import Resource
from reconciler.errors import ReconcilerError, Rejected

LONGEST_TOKEN = 16 * 1024
"""Bytes. Tokens of service accounts have about 1,000."""


class Denied(Exception):
    """The request is rejected with an HTTP status."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


Access = Callable[[web.BaseRequest], Awaitable[None]]
"""Returns if a request is allowed. Raises Denied otherwise"""


async def local_only(request: web.BaseRequest) -> None:
    """Allow requests from this machine, for loopback host names only: a page in a local browser may resolve
    its own name to this address (DNS rebinding).
    """
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
        """See `Access`."""
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
    """The bearer token of a request. Raises Denied if there is none, or if its bytes are no text."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or not token.isprintable() or len(token) > LONGEST_TOKEN:
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


log = structlog.get_logger()

TOKEN_REVIEW = Resource("TokenReview", "authentication.k8s.io", "v1", "tokenreviews", namespaced=False)
ACCESS_REVIEW = Resource(
    "SubjectAccessReview", "authorization.k8s.io", "v1", "subjectaccessreviews", namespaced=False
)

CACHE_SECONDS = 10.0
"""Time for which a review is cached, as in Kubernetes components"""
CACHE_SIZE = 256
"""Cached reviews; the oldest is dropped first"""
AT_ONCE = 4
"""Concurrent reviews: clients with invalid tokens must not load the API server"""


class Review:
    """Allows users who may `get` the path as a non-resource URL; their tokens authenticate them."""

    def __init__(self, client: Client, clock: Callable[[], float]) -> None:
        """`clock` counts seconds."""
        self._client = client
        self._clock = clock
        self._known: OrderedDict[tuple[bytes, str, str], tuple[float, int]] = OrderedDict()
        self._asking = asyncio.Semaphore(AT_ONCE)

    async def check(self, request: web.BaseRequest) -> None:
        """See `Access`."""
        token = bearer(request)
        # Cache only a hash of the token.
        key = (hashlib.sha256(token.encode()).digest(), request.method.lower(), request.path)
        status = self._cached(key)
        if status is None:
            if self._asking.locked():
                raise Denied(429, "too many token reviews in progress", {"Retry-After": "1"})
            async with self._asking:
                status = await self._review(token, key[1], key[2])
            self._known[key] = (self._clock() + CACHE_SECONDS, status)
            while len(self._known) > CACHE_SIZE:
                self._known.popitem(last=False)
        if status == 401:
            raise unauthorized()
        if status == 403:
            raise Denied(403, f"forbidden: {key[1]} on the non-resource URL {request.path} is not allowed")

    def _cached(self, key: tuple[bytes, str, str]) -> int | None:
        until, status = self._known.get(key, (0.0, 0))
        if until > self._clock():
            return status
        self._known.pop(key, None)
        return None

    async def _review(self, token: str, verb: str, path: str) -> int:
        """200, 401 or 403. Raises Denied with status 503 if the API server does not answer."""
        try:
            user = await self._user(token)
            if user is None:
                return 401
            return 200 if await self._allowed(user, verb, path) else 403
        except ReconcilerError as exc:
            log.warning("status port token review failed", error=str(exc))
            raise Denied(503, "the API server could not review the token", {"Retry-After": "5"}) from exc

    async def _user(self, token: str) -> Raw | None:
        found = await self._client.create(TOKEN_REVIEW, _review_of(TOKEN_REVIEW, {"token": token}))
        status = _status(found)
        user = status.get("user")
        return user if status.get("authenticated") is True and isinstance(user, dict) else None

    async def _allowed(self, user: Raw, verb: str, path: str) -> bool:
        spec = {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups") or [],
            "extra": user.get("extra") or {},
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        found = await self._client.create(ACCESS_REVIEW, _review_of(ACCESS_REVIEW, spec))
        return _status(found).get("allowed") is True


def _review_of(resource: Resource, spec: dict[str, Any]) -> Raw:
    return {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {}, "spec": spec}


def _status(found: Any) -> Raw:
    status = found.get("status") if isinstance(found, dict) else None
    return status if isinstance(status, dict) else {}
