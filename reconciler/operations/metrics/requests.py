"""What wraps the transport to the API server: counts of requests and watches, and OpenTelemetry traces.

Traces are a span for each reconcile, with spans for its decisions and requests. The SDK is an extra,
`dra-reconciler[otel]`; its OTEL_* variables configure the export.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

from reconciler.cluster.kinds import Resource
from reconciler.cluster.transport import Lines, Request, Response, Transport, WatchRequest
from reconciler.errors import ReconcilerError, Rejected, Undecided
from reconciler.operations.metrics.meters import Meters

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider


_ALSO = {"events", "leases", "subjectaccessreviews", "tokenreviews"}
"""Resources with their own series that are not watched"""
_SUBRESOURCES = {"binding", "status"}

DISCOVERY = "discovery"
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_RESULTS = {
    401: "denied", 403: "denied", 404: "not_found", 409: "conflict", 410: "expired", 429: "busy", 503: "busy",
}  # fmt: skip


class Metered:
    """Passes all requests and responses through unchanged."""

    def __init__(
        self,
        behind: Transport,
        meters: Meters,
        clock: Callable[[], float],
        watched: Iterable[Resource] = (),
    ) -> None:
        """`clock` counts seconds. Only the names of `watched` resources and a few others appear in series."""
        self._behind = behind
        self._meters = meters
        self._clock = clock
        self._kinds = {resource.plural: resource.kind for resource in watched}
        self._ended: dict[str, str] = {}
        self.answers = 0
        """Completed requests, successful or not"""

    async def send(self, request: Request) -> Response:
        """See `Transport.send`."""
        verb, resource = self._names(request.method, request.path)
        began, result = self._clock(), "cancelled"
        try:
            response = await self._behind.send(request)
            result = _result(response.status)
        except Undecided:
            result = "unanswered"
            raise
        except ReconcilerError:
            result = "unreachable"
            raise
        finally:
            self.answers += 1
            self._meters.requests.labels(verb, resource, result).inc()
            self._meters.request_seconds.labels(verb, resource).observe(self._clock() - began)
        kind = self._kinds.get(resource)
        if kind and verb == "list" and result == "ok" and _is_first_page(request):
            self._meters.listings.labels(kind).inc()
        return response

    def stream(self, request: WatchRequest) -> Lines:
        """See `Transport.stream`."""
        kind = self._kinds.get(self._names("GET", request.path)[1])
        behind = self._behind.stream(request)
        return self._watch(kind, behind) if kind else behind

    @asynccontextmanager
    async def _watch(self, kind: str, behind: Lines) -> AsyncIterator[AsyncIterator[bytes]]:
        if kind in self._ended:
            self._meters.watch_restarts.labels(kind, self._ended[kind]).inc()
        self._ended[kind] = "failed"
        async with behind as lines:
            yield lines
        self._ended[kind] = "ended"

    def _names(self, method: str, path: str) -> tuple[str, str]:
        """Verb and resource as Kubernetes names them; `other` for resources that are not used here."""
        verb, named = verb_and_resource(method, path)
        plural, _, sub = named.partition("/")
        known = named == DISCOVERY or (
            (plural in self._kinds or plural in _ALSO) and (not sub or sub in _SUBRESOURCES)
        )
        return verb, named if known else "other"


def verb_and_resource(method: str, path: str) -> tuple[str, str]:
    """Verb and resource, with its subresource, as Kubernetes names them."""
    _, kind, *parts = path.split("/")
    parts = parts[1 if kind == "api" else 2 :]  # without group and version
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    if not parts or not parts[0] or len(parts) > 3 or kind not in ("api", "apis"):
        return _VERBS.get(method, "get"), DISCOVERY
    plural, name, sub = (*parts, "", "")[:3]
    return _VERBS.get(method) or ("get" if name else "list"), f"{plural}/{sub}" if sub else plural


def _is_first_page(request: Request) -> bool:
    return not any(name == "continue" for name, _ in request.query)


def _result(status: int) -> str:
    if 200 <= status <= 299:
        return "ok"
    return _RESULTS.get(status) or ("server_error" if status >= 500 else "rejected")


SERVICE = "dra-reconciler"
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""Variables of the SDK"""
_NO_SPAN = nullcontext()
FLUSH_SECONDS = 5.0
"""To export the remaining spans when the process ends"""


def trace_provider() -> "TracerProvider":
    """Exports spans in batches to an OTLP collector. Raises Rejected if the SDK is not installed."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError as exc:
        raise Rejected(f"{ENDPOINTS[0]} is set: install dra-reconciler[otel], or unset it ({exc})") from exc
    attributes = {"service.name": SERVICE, "service.version": version("dra-reconciler")}
    made = TracerProvider(resource=Resource.create(attributes))
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return made


class NoTraces:
    """Creates no spans."""

    def turn(self, _unit: object) -> AbstractContextManager[None]:
        """See `Traces.turn`."""
        return _NO_SPAN

    def answered(self, _reason: str, _seconds: float, _decision_id: str) -> None:
        """See `Traces.answered`."""

    def transport(self, behind: Transport) -> Transport:
        """See `Traces.transport`."""
        return behind

    async def close(self) -> None:
        """See `Traces.close`."""


class Traces(NoTraces):
    """Creates spans. Spans of one reconcile are connected, because each reconcile is a task."""

    def __init__(self, source: "TracerProvider") -> None:
        self._source = source
        self._tracer = source.get_tracer(SERVICE)

    @contextmanager
    def turn(self, unit: object) -> Iterator[None]:
        """The span of a reconcile, with its object and its error."""
        with self._tracer.start_as_current_span("turn", attributes={"dra.unit": str(unit)}):
            yield

    def answered(self, reason: str, seconds: float, decision_id: str) -> None:
        """The span of a decision that has just ended."""
        end = int(datetime.now(UTC).timestamp() * 1e9)
        attributes = {"dra.decision_id": decision_id, "dra.result": reason or "granted"}
        span = self._tracer.start_span("decide", attributes=attributes, start_time=end - int(seconds * 1e9))
        span.end(end)

    def transport(self, behind: Transport) -> Transport:
        """The transport with a span for each request."""
        return _Traced(behind, self)

    @contextmanager
    def request(self, request: Request) -> Iterator[list[int]]:
        """The span of a request. The caller appends the HTTP status to the list."""
        from opentelemetry.trace import SpanKind  # noqa: PLC0415

        verb, resource = verb_and_resource(request.method, request.path)
        attributes = {"http.request.method": request.method, "url.path": request.path}
        status: list[int] = []
        with self._tracer.start_as_current_span(
            f"{verb} {resource}", kind=SpanKind.CLIENT, attributes=attributes
        ) as span:
            yield status
            span.set_attribute("http.response.status_code", status[0])

    async def close(self) -> None:
        """Export the remaining spans, in a thread because the collector may be unreachable."""
        await asyncio.to_thread(self._source.force_flush, int(FLUSH_SECONDS * 1000))
        await asyncio.to_thread(self._source.shutdown)


def tracing() -> NoTraces:
    """`Traces` if the environment names where they go. Raises Rejected if the SDK is not installed."""
    return Traces(trace_provider()) if any(map(os.environ.get, ENDPOINTS)) else NoTraces()


class _Traced:
    """Traces requests, not watches: these last as long as the process."""

    def __init__(self, behind: Transport, traces: Traces) -> None:
        self._behind = behind
        self._traces = traces

    async def send(self, request: Request) -> Response:
        """See `Transport.send`."""
        with self._traces.request(request) as status:
            response = await self._behind.send(request)
            status.append(response.status)
            return response

    def stream(self, request: WatchRequest) -> Lines:
        """See `Transport.stream`."""
        return self._behind.stream(request)
