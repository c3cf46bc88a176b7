"""OpenTelemetry traces, if enabled: a span for each reconcile, with spans for its decisions and requests.

The SDK is an extra, `dra-reconciler[otel]`; its OTEL_* variables configure the export.
"""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

from reconciler.cluster.transport import Lines, Request, Response, Transport, WatchRequest
from reconciler.errors import Rejected
from reconciler.operations.metrics.metered import names

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

SERVICE = "dra-reconciler"
_NO_SPAN = nullcontext()
FLUSH_SECONDS = 5.0
"""To export the remaining spans when the process ends"""


def provider() -> "TracerProvider":
    """Exports spans in batches to an OTLP collector. Raises Rejected if the SDK is not installed."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError as exc:
        raise Rejected(f"setting traces: install dra-reconciler[otel] ({exc})") from exc
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

        verb, resource = names(request.method, request.path)
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


def tracing(*, wanted: bool) -> NoTraces:
    """`Traces` if wanted, otherwise `NoTraces`. Raises Rejected if the SDK is not installed."""
    return Traces(provider()) if wanted else NoTraces()


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
