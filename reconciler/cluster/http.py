"""The transport over HTTP, and how to reach a cluster. Importing this takes 0.6 s: import it late.

The client library is used for credentials and for what TLS must verify. Its generated calls, its models
and its watch are not. Reads go through aiohttp; writes, two for every claim, and watches, whose events are
as many, over wires of our own, unless there is a proxy.
"""

import asyncio
import base64
import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import cast
from urllib.parse import unquote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from multidict import CIMultiDict

from reconciler.cluster.client_library import ApiClient, Configuration
from reconciler.cluster.credentials import configuration_for
from reconciler.cluster.decoding import complete_lines
from reconciler.cluster.endpoint import LATE, Endpoint, NeverSent, no_connection
from reconciler.cluster.target import Target, choose_target
from reconciler.cluster.tls_errors import certificate_refused, explained
from reconciler.cluster.transport import READS, Query, Request, Response, WatchRequest, refusal
from reconciler.cluster.watch_wire import WatchWire
from reconciler.cluster.wires import Wires
from reconciler.errors import Rejected, Retry, Undecided

LONGEST_ANSWER = 256 * 2**20
"""Bytes. A page of 500 objects of half a megabyte, which no cluster has, still passes."""
LONGEST_LINE = 16 * 2**20
"""Bytes. etcd holds objects of 1.5 MiB; as JSON they are a few times as large."""
CONNECT_SECONDS = 10.0
TOKEN = "BearerToken"
"""The name that the client library gives to the only credential that is a header"""
BUFFER = 2**21
"""Bytes read ahead of whoever takes the lines of a watch."""

Renew = Callable[[Configuration], Awaitable[None] | None]
"""Renews credentials that are about to expire"""

_NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, NeverSent)


@asynccontextmanager
async def connect(
    *,
    server: str | None = None,
    kubeconfig: str | None = None,
    context: str | None = None,
    insecure: bool = False,
) -> AsyncIterator["HttpTransport"]:
    """A transport to a plain URL, to a context of a kubeconfig, or else to the cluster we run in.

    Without arguments the usual places are tried in kubectl's order: KUBECONFIG, ~/.kube/config,
    the service account. Raises Rejected when none of them says how to reach a server, and where a
    kubeconfig would have any certificate believed but `insecure` does not say so too.
    """
    target = choose_target(server=server, kubeconfig=kubeconfig, context=context)
    configuration = await configuration_for(target, insecure=insecure)
    async with ApiClient(configuration) as api:
        transport = HttpTransport(api, target)
        try:
            yield transport
        finally:
            transport.close()


class HttpTransport:
    """A `Transport` on the connections of an ApiClient, which verifies TLS as its configuration says.

    Behind a proxy, the connection pool sends a PUT or DELETE again when the server closed the connection
    under it, so that a Conflict may be the echo of our own write. Everything else is sent once.
    """

    def __init__(self, api: ApiClient, target: Target | None = None) -> None:
        """Takes over the connections of `api`, which closes them in the end."""
        self._api = api
        self.target = target or Target(api.configuration.host or "")
        """The cluster that this talks to"""
        self._impersonation = self.target.impersonation()
        rest = api.rest_client
        self._host, self._login = _without_login(api.configuration.host or "")
        self._proxy = rest.proxy or proxy_of(self._host)
        self._endpoint = self._wires = None
        if not self._proxy:
            self._endpoint = Endpoint(api.configuration, connect_seconds=CONNECT_SECONDS)
            most = api.configuration.connection_pool_maxsize
            self._wires = Wires(self._endpoint, longest=LONGEST_ANSWER, most=most)
        # The library's own session looks for a proxy and for a login in ~/.netrc at every request: in a
        # thread, for a sixth of a write's time, and a login found there cannot stand beside a token.
        session = aiohttp.ClientSession(
            connector=rest.pool_manager.connector, cookie_jar=aiohttp.DummyCookieJar(), read_bufsize=BUFFER
        )
        rest.pool_manager.detach()
        rest.pool_manager = self._session = session

    async def send(self, request: Request) -> Response:
        """See `Transport.send`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.timeout
        headers = await self._headers(request.timeout)
        headers["Content-Type"] = request.content_type
        if self._wires is not None and request.method not in READS:
            try:
                return await self._wires.send(request, headers, deadline)
            except OSError as exc:
                raise self._failure(request.method, request.path, exc) from exc
        # A total of 0 would mean none.
        left = max(deadline - loop.time(), 0.001)
        limits = aiohttp.ClientTimeout(total=left, sock_connect=CONNECT_SECONDS)
        try:
            async with await self._open(
                request.method, request.path, request.query, limits, headers=headers, body=request.body
            ) as response:
                return Response(response.status, response.headers, await _whole(response))
        except (aiohttp.ClientError, OSError) as exc:
            raise self._failure(request.method, request.path, exc) from exc

    def close(self) -> None:
        """Let the connections for writes go. Those of the ApiClient go with it, and a watch has its own,
        which goes when its `stream` ends.
        """
        if self._wires is not None:
            self._wires.close()

    @asynccontextmanager
    async def stream(self, request: WatchRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        """See `Transport.stream`."""
        headers = await self._headers(request.idle)
        if self._endpoint is None:
            async with self._proxied(request, headers) as lines:
                yield lines
            return
        path = request.path
        head = self._endpoint.head("GET", path, urlencode(request.query), headers)
        try:
            wire = await self._endpoint.connect(partial(_watch_wire, request), math.inf)
        except NeverSent as exc:
            raise self._failure("GET", path, exc) from exc
        try:
            response = await wire.opened(f"{head}\r\n".encode("ascii"))
            if response.status != 200:
                raise refusal("GET", path, response)
            yield wire
        finally:
            wire.abort()  # events of the old watch may still be on their way

    @asynccontextmanager
    async def _proxied(
        self, request: WatchRequest, headers: Mapping[str, str]
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """See `Transport.stream`. Through a proxy."""
        path = request.path
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=request.idle)
        try:
            response = await self._open("GET", path, request.query, limits, headers=headers)
        except (aiohttp.ClientError, OSError) as exc:
            raise self._failure("GET", path, exc) from exc
        try:
            if response.status != 200:
                raise refusal("GET", path, await self._answer(path, response))
            async with (
                aclosing(_chunks(path, response)) as chunks,
                aclosing(complete_lines(chunks, limit=LONGEST_LINE)) as lines,
            ):
                yield lines
        finally:
            response.close()  # not released: see `stream`

    async def _headers(self, seconds: float) -> MutableMapping[str, str]:
        """Headers with credentials. A plugin that renews them may hang, and nothing is sent until it ends."""
        headers: MutableMapping[str, str] = CIMultiDict(self._impersonation) if self._impersonation else {}
        headers.update({"Accept": "application/json", "User-Agent": "dra-reconciler"})
        # As `update_params_for_auth` of the library, which takes ten times as long when nothing is renewed.
        configuration = self._api.configuration
        renew = cast("Renew | None", configuration.refresh_api_key_hook)  # wrongly typed there
        renewing = renew(configuration) if renew is not None else None
        if renewing is not None:
            try:
                async with asyncio.timeout(seconds):
                    await renewing
            except TimeoutError as exc:
                raise Retry(f"credentials were not renewed within {seconds} s") from exc
        if token := configuration.api_key.get(TOKEN):
            prefix = configuration.api_key_prefix.get(TOKEN)
            headers["Authorization"] = f"{prefix} {token}" if prefix else token
        elif self._login:
            headers["Authorization"] = self._login
        return headers

    async def _open(
        self,
        method: str,
        path: str,
        query: Query,
        limits: aiohttp.ClientTimeout,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
    ) -> aiohttp.ClientResponse:
        rest = self._api.rest_client
        return await self._session.request(
            method,
            f"{self._host}{path}",
            params=list(query) or None,
            data=body,
            headers=headers,
            timeout=limits,
            allow_redirects=False,  # a redirect would carry our credentials elsewhere
            proxy=self._proxy,
            proxy_headers=rest.proxy_headers,
            server_hostname=rest.server_hostname,
        )

    def _failure(self, method: str, path: str, exc: Exception) -> Retry:
        refused = certificate_refused(exc)
        if refused is not None:  # the handshake comes before the request: nothing was sent
            return Retry(f"{method} {path}: {explained(refused, self.target)}")
        return _failure(method, path, exc)

    @staticmethod
    async def _answer(path: str, response: aiohttp.ClientResponse) -> Response:
        try:
            return Response(response.status, response.headers, await _whole(response))
        except (aiohttp.ClientError, OSError) as exc:
            raise _failure("GET", path, exc) from exc


def proxy_of(server: str) -> str | None:
    """The proxy that the environment names for a server (HTTPS_PROXY, NO_PROXY), as kubectl takes it."""
    url = urlsplit(server)
    return None if proxy_bypass(url.hostname or "") else getproxies().get(url.scheme)


def _without_login(server: str) -> tuple[str, str]:
    """A server as `http://user:password@host` names it: without the login, and the header for that.

    The header is empty if there is no login. A token goes before it, as for kubectl.
    """
    scheme, slashes, rest = server.partition("://")
    authority, slash, path = rest.partition("/")
    login, at, host = authority.rpartition("@")
    if not at:
        return server, ""
    user, _, password = login.partition(":")
    encoded = base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode("ascii")
    return f"{scheme}{slashes}{host}{slash}{path}", f"Basic {encoded}"


def _watch_wire(request: WatchRequest) -> WatchWire:
    return WatchWire(
        f"GET {request.path}",
        idle=request.idle,
        longest_line=LONGEST_LINE,
        buffer=BUFFER,
        longest_refusal=LONGEST_ANSWER,
    )


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > LONGEST_ANSWER:
            response.close()
            raise Rejected(f"{response.url}: an answer of more than {LONGEST_ANSWER} bytes")
    return b"".join(pieces)


async def _chunks(path: str, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    except (aiohttp.ClientError, OSError) as exc:
        raise _failure("GET", path, exc) from exc


def _failure(method: str, path: str, exc: Exception) -> Retry:
    """What a missing answer means. Timeouts are OSErrors, too."""
    why = f"{type(exc).__name__}: {exc}".rstrip(": ")
    if isinstance(exc, aiohttp.ClientConnectorError):
        why = no_connection(exc.host, exc.port, exc.os_error)
    elif isinstance(exc, NeverSent):
        why = str(exc)
    elif isinstance(exc, TimeoutError):
        why = str(exc) or LATE
    message = f"{method} {path}: {why}"
    if method in READS or isinstance(exc, _NEVER_SENT):
        return Retry(message)
    return Undecided(message)
