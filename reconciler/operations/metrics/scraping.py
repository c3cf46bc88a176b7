"""Metrics that are read from parts of the reconciler at each scrape, and the endpoint `/metrics`."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import structlog
from aiohttp import web
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from reconciler.control.decisions.declaration import MetricSpec
from reconciler.operations.metrics import catalogue as of
from reconciler.operations.metrics.capacity import Capacity
from reconciler.operations.metrics.meters import Meters
from reconciler.operations.metrics.profile_fits import ProfileFits
from reconciler.operations.serving.port import Route

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


def by(spec: MetricSpec, source: Callable[[], Mapping[str, float]]) -> Reading:
    """A metric with one label."""
    return Reading(spec, lambda: [((label,), value) for label, value in source().items()])


def capacity_readings(capacity: Capacity) -> list[Reading]:
    """Published and held devices. Refresh `capacity` before."""
    return [
        Reading(of.DEVICES, lambda: _devices(capacity)),
        Reading(of.COUNTER_CAPACITY, lambda: _counters(capacity, 0)),
        Reading(of.COUNTER_AVAILABLE, lambda: _counters(capacity, 1)),
    ]


def profile_readings(fits: ProfileFits) -> list[Reading]:
    """Devices that still fit. Refresh `fits` before."""
    return [
        Reading(of.PROFILE_FITS, fits.fits),
        Reading(of.PROFILE_FRAGMENTATION, fits.fragmentation),
        Reading(of.STRANDED, fits.stranded),
    ]


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
