"""The metrics that are read off the reconciler's parts when somebody asks, and how all of them are served."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import structlog
from aiohttp import web
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from reconciler.observe import catalogue as of
from reconciler.observe.capacity import Capacity
from reconciler.observe.fullness import Fullness
from reconciler.observe.meters import Meters
from reconciler.observe.port import Route
from reconciler.reconcile.metric import MetricSpec

log = structlog.get_logger()

Values = Iterable[tuple[tuple[str, ...], float]]
"""Label values, and the value of that series"""


@dataclass(eq=False)
class Readings(Collector):
    """Where to read what. Parts that are not there yet have no series."""

    sources: dict[str, tuple[MetricSpec, Callable[[], Values]]] = field(default_factory=dict)
    capacity: Capacity | None = None
    fullness: Fullness | None = None

    def read(self, spec: MetricSpec, source: Callable[[], Values]) -> None:
        """Let a metric be read from a source: cheap, and never waiting."""
        self.sources[spec.name] = (spec, source)

    def single(self, spec: MetricSpec, source: Callable[[], float]) -> None:
        """The same for a metric without labels."""
        self.read(spec, lambda: [((), source())])

    def by(self, spec: MetricSpec, source: Callable[[], Mapping[str, float]]) -> None:
        """The same for a metric with one label."""
        self.read(spec, lambda: [((label,), value) for label, value in source().items()])

    def holdings(self, capacity: Capacity) -> None:
        """Show what devices are held; `capacity` is brought up to date before."""
        self.capacity = capacity
        self.read(of.DEVICES, lambda: _devices(capacity))
        self.read(of.COUNTER_CAPACITY, lambda: _counters(capacity, 0))
        self.read(of.COUNTER_AVAILABLE, lambda: _counters(capacity, 1))

    def also(self, spec: MetricSpec, source: Callable[[], Values]) -> None:
        """Let a metric that is read already be read from another source, too."""
        _, before = self.sources[spec.name]
        self.read(spec, lambda: [*before(), *source()])

    def fitting(self, fullness: Fullness) -> None:
        """Show what fits; `fullness` is brought up to date before."""
        self.fullness = fullness
        self.read(of.PROFILE_FITS, fullness.fits)
        self.read(of.PROFILE_FRAGMENTATION, fullness.fragmentation)
        self.read(of.STRANDED, fullness.stranded)

    def describe(self) -> Iterator[Metric]:
        """Nothing: the registry would otherwise collect once to find out names."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """One family a source."""
        for spec, source in self.sources.values():
            family = (
                CounterMetricFamily(spec.full_name, spec.help, labels=spec.label_names)
                if spec.kind == "counter"
                else GaugeMetricFamily(spec.full_name, spec.help, labels=spec.label_names)
            )
            for labels, value in source():
                family.add_metric(labels, value)
            yield family


def metrics_routes(meters: Meters, readings: Readings) -> list[Route]:
    """`/metrics`, in OpenMetrics or in Prometheus' older text, as the scraper prefers."""

    async def metrics(request: web.BaseRequest) -> web.StreamResponse:
        try:
            if readings.capacity is not None:
                await readings.capacity.refresh()
            if readings.fullness is not None:
                await readings.fullness.refresh()
        except Exception:  # what is broken is best seen by the metrics that are left
            log.exception("devices could not be counted")
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(meters.registry), headers={"Content-Type": content_type})

    meters.registry.register(readings)
    return [Route("/metrics", metrics)]


def _devices(capacity: Capacity) -> Values:
    return [
        ((driver, state), number)
        for driver, states in capacity.holdings.devices.items()
        for state, number in states.items()
    ]


def _counters(capacity: Capacity, which: int) -> Values:
    return [
        ((driver, counter), both[which])
        for driver, counters in capacity.holdings.counters.items()
        for counter, both in counters.items()
    ]
