"""How a decision is declared, named and reported.

A decision is a class: it declares the name and the level of its log line, its fields and its metrics. The log
line, the pages of the docs and the counters derive from that.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from itertools import count
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, dataclass_transform, get_args

from reconciler.control.units import Unit

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
    help: str
    labels: tuple[tuple[str, str], ...] = ()
    """Labels and their possible values"""
    buckets: tuple[float, ...] = ()
    by_leader: bool = False
    """Whether only the leader has series. All replicas of a shard know the same cluster, and shards know
    disjoint parts of it, so a plain sum over all processes is right."""

    @property
    def kind(self) -> Literal["counter", "gauge", "histogram"]:
        """As its name and its buckets say."""
        return "histogram" if self.buckets else "counter" if self.name.endswith("_total") else "gauge"

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


def metric(
    name: str, about: str, *, buckets: tuple[float, ...] = (), by_leader: bool = False, **labels: str
) -> MetricSpec:
    """A metric, with its labels by name: what their values are."""
    return MetricSpec(name, about, tuple(labels.items()), buckets, by_leader)


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


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
@dataclass(frozen=True)
class Decision:
    """A decision, or a finding. Each class below it becomes a frozen dataclass."""

    LINES: ClassVar[tuple[Line, ...]]
    """Its log line. A class with several declares them itself, and chooses in `line`."""
    METRICS: ClassVar[tuple[Counted, ...]]

    decision_id: Annotated[str, Logged("names one decision, also in Events, exemplars and the journal")] = (
        field(default="", compare=False, kw_only=True)
    )
    """Allocations that were decided together share it. Empty until the decision is reported, unless the
    handler sets it."""

    def __init_subclass__(
        cls, *, info: str = "", warning: str = "", counted: Counted | tuple[Counted, ...] = ()
    ) -> None:
        """`info` or `warning` is the event of its log line, `counted` where it counts."""
        if info or warning:
            cls.LINES = (Line(info or warning, Level.INFO if info else Level.WARNING),)
        cls.METRICS = (counted,) if isinstance(counted, Counted) else counted
        dataclass(frozen=True)(cls)

    @property
    def line(self) -> Line:
        """The log line of this decision."""
        return self.LINES[0]

    @classmethod
    def logged_fields(cls) -> Iterator[LoggedField]:
        """The fields in the order of the log line: its own, then those of every decision."""
        for one in sorted(fields(cls), key=lambda one: one.kw_only is True):
            _, logged = get_args(one.type)
            yield LoggedField(one.name, logged.name or one.name, logged)

    @classmethod
    def meaning(cls) -> str:
        """What happened, in a sentence or two: the first paragraph of the docstring."""
        return " ".join((cls.__doc__ or "").partition("\n\n")[0].split())


Report = Callable[[Decision], None]
"""Reports a decision, or gets one that is reported"""


LETTERS = "23456789bcdfghjkmnpqrstvwxz"
"""Easy to read out, and without vowels, so that they form no words."""
_PREFIX = 5


class Reporter:
    """Names each decision, and passes it to listeners."""

    def __init__(
        self,
        random: Callable[[], float],
        listeners: Iterable[Report],
        *,
        reconciling: Callable[[Unit], AbstractContextManager[None]] = lambda _: nullcontext(),
        answered: Callable[[str, float, str], None] = lambda *_: None,
    ) -> None:
        """`random` returns numbers in [0, 1), which decide the prefix of names. The other functions must not
        raise: the reconcile would fail. `reconciling` is entered for the time of one reconcile. `answered` is
        told of the end of a search: the reason, which is empty when devices were granted, seconds, and the
        name.
        """
        self._prefix = "".join(LETTERS[int(random() * len(LETTERS))] for _ in range(_PREFIX))
        self._numbers = count(1)
        self._listeners = tuple(listeners)
        self.reconciling, self.answered = reconciling, answered

    def name(self) -> str:
        """A name for one more decision, such as `q7xkd-1`: unique within a run, and most likely between runs.

        At most 16 characters in the first 2 ** 40 decisions.
        """
        return f"{self._prefix}-{next(self._numbers):x}"

    def report(self, decision: Decision) -> None:
        """Report a decision. It gets a name if it has none."""
        named = decision if decision.decision_id else replace(decision, decision_id=self.name())
        for listener in self._listeners:
            listener(named)
