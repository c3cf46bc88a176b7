"""What one part of the process contributes to health, metrics, status and the page, as plain values.

A part does not know where its signals go; `Telemetry.register` puts them there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.operations.metrics.scraping import Reading, Refresh
from reconciler.operations.page.sources import Fact
from reconciler.operations.serving.health import Check
from reconciler.operations.serving.port import Route
from reconciler.operations.serving.statusz import Section


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """Signals of a part. A name that is registered again replaces the earlier signal of that name."""

    live: Mapping[str, Check] = field(default_factory=dict)
    """Checks of `/livez`, by name"""
    ready: Mapping[str, Check] = field(default_factory=dict)
    """Checks of `/readyz`, by name"""
    sections: Mapping[str, Section] = field(default_factory=dict)
    """Sections of `/statusz`, by title"""
    readings: Sequence[Reading] = ()
    """Metrics that are read when somebody scrapes"""
    refresh: Sequence[Refresh] = ()
    """What to bring up to date before the metrics are read"""
    routes: Sequence[Route] = ()
    """Paths on the status port"""
    facts: Sequence[Callable[[], Fact]] = ()
    """Lines about the process, for the top of the page"""
