"""Counters and histograms that the code updates, in their own registry."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import attrgetter

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

from reconciler.api.objects.plan import Reason
from reconciler.control.decisions.declaration import Counted, Decision, MetricSpec
from reconciler.control.decisions.every import DECISIONS
from reconciler.operations.metrics import catalogue as of

_Count = Callable[[Decision], None]
_Observe = Callable[[float, str], None]

EXEMPLARS = 16
"""The first of so many observations in a bucket gets an exemplar, which takes longer than the counting"""


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
        # Look the series up once: that is slower than counting, and makes them start at 0.
        self._counts = {kind: [_counting(decided[one.metric], one) for one in kind.METRICS] for kind in kinds}
        self.refusals = self._counter(of.REFUSALS)
        self.requests = self._counter(of.REQUESTS)
        self.request_seconds = self._histogram(of.REQUEST_SECONDS)
        self.watch_restarts = self._counter(of.WATCH_RESTARTS)
        self.listings = self._counter(of.LISTINGS)
        self.loop_lag = self._histogram(of.LOOP_LAG)
        self.build = Gauge(of.BUILD.full_name, of.BUILD.help, of.BUILD.label_names, registry=self.registry)
        # The series start at 0, so that `increase` sees the first count.
        results = ("granted", "refused", "gave_up")
        self._decided = {name: _observing(self.decision.labels(name), of.DECISION) for name in results}
        self._refused: dict[str, Counter] = {}

    def answered(self, reason: str, seconds: float, decision_id: str) -> None:
        """Count the answer of a search; see `reconciler.control.decisions.declaration.Observer`."""
        result = "granted"
        if reason:
            result = "gave_up" if reason == Reason.GAVE_UP else "refused"
            if reason not in self._refused:  # looking a series up is slower than counting
                self._refused[reason] = self.refusals.labels(reason)
            self._refused[reason].inc()
        self._decided[result](seconds, decision_id)

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
    observed, observe = attrgetter(counted.observed), _observing(series, counted.metric)

    def count(decision: Decision) -> None:
        value = observed(decision)
        if value is not None:
            observe(value, decision.decision_id)

    return count


def _observing(series: Histogram, spec: MetricSpec) -> _Observe:
    """A function that observes a value. Now and then its bucket gets an exemplar that names the decision."""
    counts = [0] * (len(spec.buckets) + 1)

    def observe(value: float, decision_id: str) -> None:
        bucket = bisect_left(spec.buckets, value)
        series.observe(value, None if counts[bucket] % EXEMPLARS else {"decision_id": decision_id})
        counts[bucket] += 1

    return observe
