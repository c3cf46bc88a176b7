"""The metrics of a process: what the code counts, what is read at each scrape, and `/metrics`."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

import structlog
from aiohttp import web
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from reconciler.allocation.dra.proof_tables import PACKINGS
from reconciler.api.objects.plan import Reason
from reconciler.control.decisions.declaration import Counted, Decision, MetricSpec
from reconciler.control.decisions.every import DECISIONS
from reconciler.operations.metrics import catalogue as of
from reconciler.operations.serving.port import Route

_Count = Callable[[Decision], None]


class Meters:
    """Counters and histograms. Each instance has a registry, so one process may hold several."""

    def __init__(self, *, process: bool = True, kinds: Sequence[type[Decision]] = DECISIONS) -> None:
        """`process` adds the metrics `process_*` and `python_*` of the Prometheus client."""
        # Series with the time at which each other series was created. They double the number of series, and
        # `process_start_time_seconds` says nearly the same.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        if process:
            ProcessCollector(registry=self.registry)
            GCCollector(registry=self.registry)
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
        self.build = Gauge(of.BUILD.full_name, of.BUILD.help, of.BUILD.label_names, registry=self.registry)
        proof = of.PROOF_STATES
        states = Gauge(proof.full_name, proof.help, proof.label_names, registry=self.registry)
        states.labels("kept").set_function(lambda: len(PACKINGS))
        states.labels("limit").set(PACKINGS.limit)
        for name in ("granted", "refused", "gave_up"):
            self.decision.labels(name)

    def answered(self, reason: str, seconds: float, decision_id: str) -> None:
        """Count the answer of a search; see `reconciler.control.decisions.declaration.Observer`."""
        result = "granted"
        if reason:
            result = "gave_up" if reason == Reason.GAVE_UP else "refused"
            self.refusals.labels(reason).inc()
        self.decision.labels(result).observe(seconds, {"decision_id": decision_id})

    def on_decision(self, decision: Decision) -> None:
        """Count a decision in the metrics that its class declares."""
        for count in self._counts[type(decision)]:
            count(decision)

    def _metric(self, spec: MetricSpec) -> Counter | Histogram:
        return self._histogram(spec) if spec.kind == "histogram" else self._counter(spec)

    def _counter(self, spec: MetricSpec) -> Counter:
        return Counter(spec.full_name, spec.help, spec.label_names, registry=self.registry)

    def _histogram(self, spec: MetricSpec) -> Histogram:
        return Histogram(
            spec.full_name, spec.help, spec.label_names, buckets=spec.buckets, registry=self.registry
        )


def _counting(metric: Counter | Histogram, counted: Counted) -> _Count:
    """A function that counts one decision in a metric."""
    series = metric.labels(*counted.labels) if counted.labels else metric
    if isinstance(series, Counter):
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
