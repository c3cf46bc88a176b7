"""Histograms that take little time to observe: several values for each claim, thousands a second.

Scraped, they are as those of the Prometheus client, which take five times as long: it locks each value, and
looks for the bucket from the first one on.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate
from time import time

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import Exemplar, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import INF, floatToGoString

from reconciler.control.decisions.metric import MetricSpec

EXEMPLARS = 16
"""The first of so many observations in a bucket gets an exemplar, which takes longer than the counting"""


class Observed:
    """One series of a histogram. Not safe across threads."""

    __slots__ = ("_bounds", "_counts", "_exemplars", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        """The upper `bounds` of the buckets, without infinity."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._exemplars: list[Exemplar | None] = [None] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float, decision_id: str = "") -> None:
        """Count a value. Now and then the exemplar of its bucket names the decision."""
        bucket = bisect_left(self._bounds, value)
        if decision_id and not self._counts[bucket] % EXEMPLARS:
            self._exemplars[bucket] = Exemplar({"decision_id": decision_id}, value, time())
        self._counts[bucket] += 1
        self._sum += value

    def add_to(self, family: HistogramMetricFamily, labels: tuple[str, ...]) -> None:
        """Add what was counted to what is scraped."""
        bounds = map(floatToGoString, (*self._bounds, INF))
        upto = map(float, accumulate(self._counts))
        buckets = [
            (bound, count) if exemplar is None else (bound, count, exemplar)
            for bound, count, exemplar in zip(bounds, upto, self._exemplars, strict=True)
        ]
        family.add_metric(labels, buckets, self._sum)


class Histogram(Collector):
    """A histogram in a registry: one series, or one for each combination of labels."""

    def __init__(self, spec: MetricSpec, registry: CollectorRegistry) -> None:
        self._spec = spec
        self._series: dict[tuple[str, ...], Observed] = {}
        if not spec.labels:
            self.labels()
        registry.register(self)

    def labels(self, *values: str) -> Observed:
        """The series with these values of the labels, in their order. Without labels, the only one."""
        found = self._series.get(values)
        if found is None:
            if len(values) != len(self._spec.labels):
                raise ValueError(f"{self._spec.name} has the labels {self._spec.label_names}, not {values}")
            found = self._series[values] = Observed(self._spec.buckets)
        return found

    def describe(self) -> Iterable[Metric]:
        """See `Collector`: the names, for the registry."""
        return [self._family()]

    def collect(self) -> Iterator[Metric]:
        """See `Collector`."""
        family = self._family()
        for labels, series in self._series.items():
            series.add_to(family, labels)
        yield family

    def _family(self) -> HistogramMetricFamily:
        spec = self._spec
        return HistogramMetricFamily(spec.full_name, spec.help, labels=spec.label_names)
