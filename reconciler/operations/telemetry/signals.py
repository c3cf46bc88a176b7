"""Contributions of a part of the process to health, metrics and the status page, as plain values.

`Telemetry.register` adds them to the endpoints.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from reconciler.operations.metrics.scraping import Reading, Refresh
from reconciler.operations.page.sources import Fact
from reconciler.operations.serving.health import Check
from reconciler.operations.serving.port import Route
from reconciler.operations.serving.statusz import Section


class Signals(Struct, frozen=True, kw_only=True):
    """Signals of a part. A name that is registered again replaces the earlier signal of that name."""

    live: Mapping[str, Check] = field(default_factory=dict)
    """Checks of `/livez`, by name"""
    ready: Mapping[str, Check] = field(default_factory=dict)
    """Checks of `/readyz`, by name"""
    sections: Mapping[str, Section] = field(default_factory=dict)
    """Sections of `/statusz`, by title"""
    readings: Sequence[Reading] = ()
    """Metrics that are read at each scrape"""
    refresh: Sequence[Refresh] = ()
    """Called before the metrics are read"""
    routes: Sequence[Route] = ()
    """Paths on the status port"""
    facts: Sequence[Callable[[], Fact]] = ()
    """Lines in the header of the status page"""
