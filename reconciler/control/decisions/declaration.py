"""What a class of decisions declares: its log line, its fields, and its metrics.

The log line, docs/logs.md, the metrics and docs/metrics.md are derived from the declaration.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from reconciler.control.decisions.metric import MetricSpec


class Level(StrEnum):
    """The level of a log line."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Line:
    """The log line of a decision."""

    event: str
    level: Level
    meaning: str = ""
    """For docs/logs.md; empty if the docstring of the class says it"""


@dataclass(frozen=True, slots=True)
class Logged:
    """How a field of a decision is logged. Part of its type: `Annotated[str, Logged("...")]`."""

    meaning: str
    """For docs/logs.md"""
    json: type | tuple[type, ...] = str
    """Type of the value in the log line"""
    write: Callable[[Any], Any] | None = None
    """Converts the value for the log line; None logs it unchanged"""
    name: str = ""
    """Name in the log line; empty for the name of the field"""
    optional: bool = False
    """Whether None leaves the field out of the log line"""


@dataclass(frozen=True, slots=True)
class Counted:
    """A metric in which each such decision counts."""

    metric: MetricSpec
    labels: tuple[str, ...] = ()
    """Values of the metric's labels"""
    observed: str = ""
    """Of a histogram: the field with the value to observe; None is not observed. Its exemplar names the
    decision."""


class LoggedField(NamedTuple):
    """A field of a decision, with its name in the class and in the log line."""

    attribute: str
    name: str
    logged: Logged
