"""The metrics of a process: what the code counts, requests and watches, what is read at each scrape, and
traces.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from datetime import UTC, datetime
from importlib.metadata import version
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import prometheus_client as prometheus
import structlog
from aiohttp import web
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from reconciler.allocation.dra.proof_tables import PACKINGS
from reconciler.api.objects.plan import Reason
from reconciler.cluster.kinds import Resource
from reconciler.cluster.transport import Lines, Request, Response, Transport, WatchRequest
from reconciler.control.decisions.declaration import Counted, Decision, MetricSpec
from reconciler.control.decisions.every import DECISIONS
from reconciler.errors import ReconcilerError, Rejected, Undecided
from reconciler.operations.metrics import catalogue as of
from reconciler.operations.serving.port import Route

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer


_Count = Callable[[Decision], None]


class Meters:
    """Counters and histograms. Each instance has a registry, so one process may hold several."""

    def __init__(self, *, process: bool = True, kinds: Sequence[type[Decision]] = DECISIONS) -> None:
        """`process` adds the metrics `process_*` and `python_*` of the Prometheus client."""
        # Series with the time at which each other series was created. They double the number of series, and
        # `process_start_time_seconds` says nearly the same.
        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = prometheus.CollectorRegistry()
        if process:
            prometheus.ProcessCollector(registry=self.registry)
            prometheus.GCCollector(registry=self.registry)
        self.decision = self._histogram(of.DECISION)
        decided = {spec: self._metric(spec) for spec in of.metrics_of(kinds)}
        # The series are looked up now, so that they start at 0 and `increase` sees the first count.
        self._counts = {kind: [_counting(decided[one.metric], one) for one in kind.METRICS] for kind in kinds}
        self.refusals = self._counter(of.REFUSALS)
        self.requests = self._counter(of.REQUESTS)
        self.request_seconds = self._histogram(of.REQUEST_SECONDS)
        self.watch_restarts = self._counter(of.WATCH_RESTARTS)
        self.listings = self._counter(of.LISTINGS)
        self.loop_lag = self._histogram(of.LOOP_LAG)
        self.build = prometheus.Gauge(
            of.BUILD.full_name, of.BUILD.help, of.BUILD.label_names, registry=self.registry
        )
        proof = of.PROOF_STATES
        states = prometheus.Gauge(proof.full_name, proof.help, proof.label_names, registry=self.registry)
        states.labels("kept").set_function(lambda: len(PACKINGS))
        states.labels("limit").set(PACKINGS.limit)
        for name in ("granted", "refused", "gave_up"):
            self.decision.labels(name)

    def answered(self, reason: str, seconds: float, decision_id: str) -> None:
        """Count the answer of a search; see `Reporter`."""
        result = "granted"
        if reason:
            result = "gave_up" if reason == Reason.GAVE_UP else "refused"
            self.refusals.labels(reason).inc()
        self.decision.labels(result).observe(seconds, {"decision_id": decision_id})

    def on_decision(self, decision: Decision) -> None:
        """Count a decision in the metrics that its class declares."""
        for count in self._counts[type(decision)]:
            count(decision)

    def _metric(self, spec: MetricSpec) -> prometheus.Counter | prometheus.Histogram:
        return self._histogram(spec) if spec.kind == "histogram" else self._counter(spec)

    def _counter(self, spec: MetricSpec) -> prometheus.Counter:
        return prometheus.Counter(spec.full_name, spec.help, spec.label_names, registry=self.registry)

    def _histogram(self, spec: MetricSpec) -> prometheus.Histogram:
        return prometheus.Histogram(
            spec.full_name, spec.help, spec.label_names, buckets=spec.buckets, registry=self.registry
        )


def _counting(metric: prometheus.Counter | prometheus.Histogram, counted: Counted) -> _Count:
    """A function that counts one decision in a metric."""
    series = metric.labels(*counted.labels) if counted.labels else metric
    if isinstance(series, prometheus.Counter):
        return lambda _: series.inc()
    observed = attrgetter(counted.observed)

    def count(decision: Decision) -> None:
        value = observed(decision)
        if value is not None:
            series.observe(value, {"decision_id": decision.decision_id})

    return count


log = structlog.get_logger()

Values = Iterable[tuple[tuple[str, ...], float]]
"""Label values, and the value of that series"""


Refresh = Callable[[], Awaitable[None]]
"""Updates what the readings read"""


class Reading(NamedTuple):
    """A metric and the function that reads its series. The function is cheap and does not wait."""

    spec: MetricSpec
    source: Callable[[], Values]


def single(spec: MetricSpec, source: Callable[[], float]) -> Reading:
    """A metric without labels."""
    return Reading(spec, lambda: [((), source())])


def labelled(spec: MetricSpec, source: Callable[[], Mapping[str, float]]) -> Reading:
    """A metric with one label."""
    return Reading(spec, lambda: [((label,), value) for label, value in source().items()])


class Readings(Collector):
    """All registered readings. A part without readings has no series.

    The reading of the metric `leader` decides whether metrics of the leader have series.
    """

    def __init__(self) -> None:
        self._readings: dict[str, Reading] = {}
        self._refresh: list[Refresh] = []

    def add(self, readings: Iterable[Reading], refresh: Iterable[Refresh] = ()) -> None:
        """Add readings; the last one of a metric replaces others. `refresh` is called before each scrape."""
        self._readings |= {reading.spec.name: reading for reading in readings}
        self._refresh += refresh

    async def refresh(self) -> None:
        """Update all parts before a scrape. A standby skips it: only the leader serves their metrics."""
        if self._leads():
            for refresh in self._refresh:
                await refresh()

    def describe(self) -> Iterator[Metric]:
        """Nothing. Otherwise the registry would collect once to find the names."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """One family per reading."""
        leads = self._leads()
        for spec, source in self._readings.values():
            family = (
                CounterMetricFamily(spec.full_name, spec.help, labels=spec.label_names)
                if spec.kind == "counter"
                else GaugeMetricFamily(spec.full_name, spec.help, labels=spec.label_names)
            )
            for labels, value in source() if leads or not spec.by_leader else ():
                family.add_metric(labels, value)
            yield family

    def _leads(self) -> bool:
        """Whether this process is the leader. Without such a reading, there is no other."""
        leader = self._readings.get(of.LEADER.name)
        return leader is None or any(value for _, value in leader.source())


def metrics_routes(meters: Meters, readings: Readings) -> list[Route]:
    """`/metrics`, in the OpenMetrics or the Prometheus text format, as the client prefers."""

    async def metrics(request: web.BaseRequest) -> web.StreamResponse:
        try:
            await readings.refresh()
        except Exception:  # the other metrics are still served
            log.exception("device metrics failed")
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(meters.registry), headers={"Content-Type": content_type})

    meters.registry.register(readings)
    return [Route("/metrics", metrics)]


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
        self, behind: Transport, meters: Meters, clock: Callable[[], float], watched: Iterable[Resource] = ()
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


class Traces:
    """Creates spans, if there is a provider. Those of one reconcile are connected: each one is a task."""

    def __init__(self, source: "TracerProvider | None" = None) -> None:
        self._source = source
        self._tracer = None if source is None else source.get_tracer(SERVICE)

    def turn(self, unit: object) -> AbstractContextManager[Any]:
        """The span of a reconcile, with its object and its error."""
        if self._tracer is None:
            return _NO_SPAN
        return self._tracer.start_as_current_span("turn", attributes={"dra.unit": str(unit)})

    def answered(self, reason: str, seconds: float, decision_id: str) -> None:
        """The span of a decision that has just ended."""
        if self._tracer is not None:
            end = int(datetime.now(UTC).timestamp() * 1e9)
            about = {"dra.decision_id": decision_id, "dra.result": reason or "granted"}
            span = self._tracer.start_span("decide", attributes=about, start_time=end - int(seconds * 1e9))
            span.end(end)

    def transport(self, behind: Transport) -> Transport:
        """The transport with a span for each request."""
        return behind if self._tracer is None else _Traced(behind, self._tracer)

    async def close(self) -> None:
        """Export the remaining spans, in a thread because the collector may be unreachable."""
        if self._source is not None:
            await asyncio.to_thread(self._source.force_flush, int(FLUSH_SECONDS * 1000))
            await asyncio.to_thread(self._source.shutdown)


def tracing() -> Traces:
    """Traces, if the environment names where they go. Raises Rejected if the SDK is not installed."""
    return Traces(trace_provider() if any(map(os.environ.get, ENDPOINTS)) else None)


class _Traced:
    """Traces requests, not watches: these last as long as the process."""

    def __init__(self, behind: Transport, tracer: "Tracer") -> None:
        self._behind, self._tracer = behind, tracer
        self.stream = behind.stream

    async def send(self, request: Request) -> Response:
        """See `Transport.send`."""
        from opentelemetry.trace import SpanKind  # noqa: PLC0415

        name = " ".join(verb_and_resource(request.method, request.path))
        about = {"http.request.method": request.method, "url.path": request.path}
        with self._tracer.start_as_current_span(name, kind=SpanKind.CLIENT, attributes=about) as span:
            response = await self._behind.send(request)
            span.set_attribute("http.response.status_code", response.status)
            return response
