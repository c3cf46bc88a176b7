"""The transport over HTTP, by the client of kubernetes-asyncio. Importing this takes 0.6 s: import it late.

Every request is a call of the library's ApiClient, on its connections, with its TLS and its credentials.
Answers are taken as bytes: its models would take five times as long, and its watch mishandles status 410.
"""

import asyncio
import base64
import os
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from socket import gaierror
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from reconciler.cluster.credentials import ApiClient, configuration_for
from reconciler.cluster.events import complete_lines
from reconciler.cluster.target import Target, choose_target
from reconciler.cluster.transport import READS, Query, Request, Response, WatchRequest, refusal
from reconciler.errors import Rejected, Retry, Undecided

LONGEST_ANSWER = 256 * 2**20
"""Bytes. A page of 500 objects of half a megabyte, which no cluster has, still passes."""
LONGEST_LINE = 16 * 2**20
"""Bytes. etcd holds objects of 1.5 MiB; as JSON they are a few times as large."""
CONNECT_SECONDS = 10.0
CONNECTIONS = 100
"""Maximum number of connections. Each watch occupies one, and each request on its way"""
BUFFER = 2**21
"""Bytes read ahead of whoever takes the lines of a watch."""
TOKEN = "BearerToken"
"""The name that the client library gives to the only credential that is a header"""
LATE = "no answer in time"
"""Why there is no answer, where the system has no words"""

_UNSENDABLE = re.compile(r"[^\t\x20-\x7e]").search
_NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


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
    the service account. Raises Rejected when none of them says how to reach a server.
    """
    target = choose_target(server=server, kubeconfig=kubeconfig, context=context)
    configuration = await configuration_for(target, insecure=insecure)
    configuration.connection_pool_maxsize = CONNECTIONS
    async with ApiClient(configuration) as api:
        yield HttpTransport(api, target)


class HttpTransport:
    """A `Transport` on the connections of an ApiClient, which verifies TLS as its configuration says.

    The connection pool sends a PUT or DELETE again when the server closed the connection under it, so that a
    Conflict may be the echo of our own write. Everything else is sent once.
    """

    def __init__(self, api: ApiClient, target: Target | None = None) -> None:
        """Takes over the connections of `api`, which closes them in the end."""
        self._api = api
        self.target = target or Target(api.configuration.host or "")
        """The cluster that this talks to"""
        api.user_agent = "dra-reconciler"
        self._host, login = _without_login(api.configuration.host or "")
        api.configuration.host = self._host
        rest = api.rest_client
        rest.proxy = rest.proxy or proxy_of(self._host)  # type: ignore[assignment]
        # The library's own session looks for a login in ~/.netrc at every request: in a thread, for a sixth
        # of a write's time, and a login found there cannot stand beside a token. It cannot repeat a header.
        always = [*self.target.impersonation(), *([("Authorization", login)] if login else [])]
        tracing = aiohttp.TraceConfig()
        tracing.on_request_redirect.append(_refuse_redirect)
        session = aiohttp.ClientSession(
            connector=rest.pool_manager.connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=always,
            read_bufsize=BUFFER,
            trace_configs=[tracing],
        )
        rest.pool_manager.detach()
        rest.pool_manager = session

    async def send(self, request: Request) -> Response:
        """See `Transport.send`."""
        method, path = request.method, request.path
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.timeout
        headers = await self.credentials(request.timeout)
        headers["Content-Type"] = request.content_type
        # A limit of 0 would mean none. Who waits for a connection until then has sent nothing.
        left = max(deadline - loop.time(), 0.001)
        limits = aiohttp.ClientTimeout(connect=left, sock_connect=CONNECT_SECONDS)
        try:
            # Not aiohttp's `total`: it drops a cancellation that comes at the same time, so that a process
            # that is to stop would go on.
            async with asyncio.timeout(left):
                response = await self._call(method, path, request.query, headers, limits, request.body)
                async with response:
                    return Response(response.status, response.headers, await _whole(response))
        except (aiohttp.ClientError, OSError) as exc:
            raise self._failure(method, path, exc) from exc

    @asynccontextmanager
    async def stream(self, request: WatchRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        """See `Transport.stream`."""
        path = request.path
        headers = await self.credentials(request.idle)
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=request.idle)
        try:
            response = await self._call("GET", path, request.query, headers, limits)
        except (aiohttp.ClientError, OSError) as exc:
            raise self._failure("GET", path, exc) from exc
        try:
            if response.status != 200:
                raise refusal("GET", path, await self._refused(path, response))
            async with (
                aclosing(self._chunks(path, response)) as chunks,
                aclosing(complete_lines(chunks, limit=LONGEST_LINE)) as lines,
            ):
                yield lines
        finally:
            response.close()  # not released: events of the old watch may still be on their way

    @asynccontextmanager
    async def port_forward(
        self, namespace: str, pod: str, port: int
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A websocket to a port of a pod. Each message begins with the number of its channel: 0 has data, 1
        an error; the first message of a channel repeats the port. Raises ReconcilerError.

        Source: kubelet, `portforward/websocket.go`, protocol `v4.channel.k8s.io`.
        """
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/portforward"
        rest = self._api.rest_client
        try:
            async with rest.pool_manager.ws_connect(
                f"{self._host}{path}",
                params={"ports": str(port)},
                protocols=["v4.channel.k8s.io"],
                headers=await self.credentials(CONNECT_SECONDS),
                proxy=rest.proxy,
            ) as found:
                yield found
        except aiohttp.WSServerHandshakeError as exc:
            why = "create and get on pods/portforward are needed" if exc.status == 403 else exc.message
            raise Rejected(f"GET {path}: status {exc.status}: {why}") from exc
        except (aiohttp.ClientError, OSError) as exc:
            raise self._failure("GET", path, exc) from exc

    async def credentials(self, seconds: float) -> dict[str, str]:
        """Headers with credentials. A plugin that renews them may hang, and nothing is sent until it ends.

        So that this counts for the deadline of a request, the library is not asked to do it within its call.
        """
        try:
            async with asyncio.timeout(seconds):
                token = await self._api.configuration.get_api_key_with_prefix(TOKEN)
        except TimeoutError as exc:
            raise Retry(f"credentials were not renewed within {seconds} s") from exc
        if token and _UNSENDABLE(token):
            raise Rejected("the header Authorization cannot be sent: it has a line break, or is not ASCII")
        return {"Accept": "application/json", **({"Authorization": token} if token else {})}

    async def _call(
        self,
        method: str,
        path: str,
        query: Query,
        headers: dict[str, str],
        limits: aiohttp.ClientTimeout,
        body: Any = None,
    ) -> aiohttp.ClientResponse:
        """Call the library. Its answer is the response as aiohttp gives it, whatever its status."""
        found = await self._api.call_api(
            quote(path),
            method,
            query_params=list(query),
            header_params=headers,
            body=body,
            _preload_content=False,
            _request_timeout=limits,
        )
        assert isinstance(found, aiohttp.ClientResponse)
        return found

    async def _refused(self, path: str, response: aiohttp.ClientResponse) -> Response:
        try:
            return Response(response.status, response.headers, await _whole(response))
        except (aiohttp.ClientError, OSError) as exc:
            raise self._failure("GET", path, exc) from exc

    async def _chunks(self, path: str, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError) as exc:
            raise self._failure("GET", path, exc) from exc

    def _failure(self, method: str, path: str, exc: Exception) -> Retry:
        """What a missing answer means. Timeouts are OSErrors, too."""
        exc.__traceback__ = None  # the response keeps the error, and its frames would keep the response
        refused = certificate_refused(exc)
        if refused is not None:  # the handshake comes before the request: nothing was sent
            return Retry(f"{method} {path}: {explained(refused, self.target)}")
        why = f"{type(exc).__name__}: {exc}".rstrip(": ")
        if isinstance(exc, aiohttp.ClientConnectorError):
            why = no_connection(exc.host, exc.port, exc.os_error)
        elif isinstance(exc, aiohttp.ConnectionTimeoutError):
            url = urlsplit(self._host)
            why = no_connection(url.hostname, url.port, TimeoutError())
        elif isinstance(exc, TimeoutError):
            why = LATE
        message = f"{method} {path}: {why}"
        error = Retry if method in READS or isinstance(exc, _NEVER_SENT) else Undecided
        return error(message, busy=why == LATE)


def proxy_of(server: str) -> str | None:
    """The proxy that the environment names for a server (HTTPS_PROXY, NO_PROXY), as kubectl takes it."""
    url = urlsplit(server)
    return None if proxy_bypass(url.hostname or "") else getproxies().get(url.scheme)


def no_connection(host: str | None, port: int | None, error: OSError) -> str:
    """Why there is none, in the words of the system where it refused: asyncio repeats the address."""
    if isinstance(error, ConnectionError) and error.errno:
        why = os.strerror(error.errno)
    elif isinstance(error, gaierror):
        why = error.strerror or str(error)
    else:
        why = str(error) or (LATE if isinstance(error, TimeoutError) else type(error).__name__)
    return f"no connection to {host}:{port}: {why}: is the server running, and is its address right?"


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


async def _refuse_redirect(
    _session: aiohttp.ClientSession, _context: SimpleNamespace, asked: aiohttp.TraceRequestRedirectParams
) -> None:
    """Keep the session from following a redirect, which would carry our credentials elsewhere."""
    asked.response.close()
    where = f"{asked.method} {asked.url.path}: {asked.response.status}"
    raise Rejected(f"{where}: the server redirects elsewhere: name the address that it redirects to")


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > LONGEST_ANSWER:
            response.close()
            raise Rejected(f"{response.url}: an answer of more than {LONGEST_ANSWER} bytes")
    return b"".join(pieces)


# What to set when the certificate of a server is refused. The library only says that it was.

_UNKNOWN_AUTHORITY = {2, 18, 19, 20, 21}
_OTHER_NAME = {62, 64}
_NOT_VALID_NOW = {9, 10}
"""Codes of OpenSSL. Source: x509_vfy.h, X509_V_ERR_*"""


def certificate_refused(exc: BaseException) -> ssl.SSLCertVerificationError | None:
    """The refusal of a certificate that caused an error of a request; None for any other error."""
    if isinstance(exc, aiohttp.ClientConnectorCertificateError):
        inner: BaseException | None = exc.certificate_error
    elif isinstance(exc, aiohttp.ClientConnectorError):
        inner = exc.os_error
    else:
        inner = exc if isinstance(exc, ssl.SSLCertVerificationError) else exc.__cause__
    return inner if isinstance(inner, ssl.SSLCertVerificationError) else None


def explained(refused: ssl.SSLCertVerificationError, target: Target) -> str:
    """What is wrong with the certificate, and the setting that is missing or wrong."""
    return f"certificate verify failed at {target}: {refused.verify_message}: {_remedy(refused, target)}"


def _remedy(refused: ssl.SSLCertVerificationError, target: Target) -> str:
    code = refused.verify_code
    where = f"of cluster {target.cluster} in the kubeconfig"
    accept = "or pass --insecure-skip-tls-verify to accept any certificate"
    if code in _NOT_VALID_NOW:
        return "renew the certificate of the server, or correct the clock of this machine"
    if not target.cluster:
        if target.in_pod:
            return f"ca.crt of the service account does not verify it: use a kubeconfig, {accept}"
        return (
            "--server verifies with the authorities of this machine: use --kubeconfig, with "
            f"certificate-authority-data and the name of the server, {accept}"
        )
    if code in _OTHER_NAME:
        return f"set tls-server-name {where} to a name in the certificate"
    if code not in _UNKNOWN_AUTHORITY:
        return f"check certificate-authority-data {where}, {accept}"
    settings = target.settings()
    given = next(
        (name for name in ("certificate-authority-data", "certificate-authority") if name in settings), ""
    )
    if given:
        return f"{given} {where} is not the authority that signed it: set it to that one, {accept}"
    return f"set certificate-authority-data {where} to the authority that signed it, {accept}"
