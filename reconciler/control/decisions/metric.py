"""The declaration of a metric: its name, meaning, and labels with their values."""

from dataclasses import dataclass
from typing import Literal

PREFIX = "dra_reconciler_"

FINE = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Buckets in seconds, for work within this process"""
COARSE = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Buckets in seconds, for times that include a response of the API server"""

WAITS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)
"""Buckets in seconds, for claims that may be pending for days"""


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric. `name` is without prefix and, for counters, with `_total`."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[tuple[str, str], ...] = ()
    """Labels and their possible values"""
    buckets: tuple[float, ...] = ()
    by_leader: bool = False
    """Whether only the leader has series. All replicas of a shard know the same cluster, and shards know
    disjoint parts of it, so a plain sum over all processes is right."""

    @property
    def full_name(self) -> str:
        """As scraped and queried."""
        return f"{PREFIX}{self.name}"

    @property
    def label_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.labels)

    @property
    def series(self) -> tuple[str, ...]:
        """The names of its series in queries."""
        if self.kind == "histogram":
            return tuple(f"{self.full_name}_{part}" for part in ("bucket", "sum", "count"))
        return (self.full_name,)
