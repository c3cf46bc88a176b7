"""How a decision is declared, named and reported.

A decision is a class: it declares the name and the level of its log line, its fields and its metrics. The log
line, the pages of the docs and the counters derive from that.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol, get_args

from reconciler.api.objects.gangs import GangKey
from reconciler.api.objects.meta import DeviceID, ObjectKey, PoolID
from reconciler.api.objects.plan import RequestCount
from reconciler.control.units import Unit
from reconciler.state import nominations as state

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


def texts(values: Iterable[object]) -> list[str]:
    """Names as in log lines."""
    return [str(value) for value in values]


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 1)


def _rounded(seconds: float) -> float:
    return round(seconds, 1)


def _counts(counts: Iterable[RequestCount]) -> list[Mapping[str, Any]]:
    return [
        {
            "claim": str(count.claim),
            "request": count.request,
            "wanted": "all" if count.wanted is None else count.wanted,
            "left": {gate.name: gate.left for gate in count.gates},
        }
        for count in counts
    ]


_CLAIM = "NAMESPACE/NAME of a ResourceClaim"
_POD = "NAMESPACE/NAME of a pod"

ClaimKey = Annotated[ObjectKey, Logged(_CLAIM, write=str)]
MaybeClaimKey = Annotated[ObjectKey | None, Logged(_CLAIM, write=str, optional=True)]
ClaimKeys = Annotated[tuple[ObjectKey, ...], Logged("NAMESPACE/NAME of each", list, texts)]
PodKey = Annotated[ObjectKey, Logged(_POD, write=str)]
MaybePodKey = Annotated[ObjectKey | None, Logged(_POD, write=str, optional=True)]
MaybePodKeys = Annotated[
    tuple[ObjectKey, ...] | None, Logged("NAMESPACE/NAME of each", list, texts, optional=True)
]
PodKeys = Annotated[tuple[ObjectKey, ...], Logged("NAMESPACE/NAME of each", list, texts)]
Gang = Annotated[GangKey, Logged("NAMESPACE/NAME", write=str)]
MaybeGang = Annotated[GangKey | None, Logged("NAMESPACE/NAME", write=str, optional=True)]

Device = Annotated[
    DeviceID, Logged("DRIVER/POOL/DEVICE; of Koordinator's devices TYPE/NODE/MINOR", write=str)
]
Devices = Annotated[tuple[DeviceID, ...], Logged("names of devices, as in `device`", list, texts)]
Pool = Annotated[PoolID, Logged("DRIVER/POOL", write=str)]
CounterSet = Annotated[str, Logged("as the name says")]
Node = Annotated[str, Logged("name of a node")]
Nominee = Annotated[
    state.Nominee,
    Logged(
        "`claim`, `pod`, `gang` or `workload`, and NAMESPACE/NAME; or `the next pod of` a controller",
        write=str,
    ),
]
Uid = Annotated[str, Logged("as the name says")]
Goal = Annotated[str, Logged("as in the setting `rebalance_goals`")]
CountedThing = Annotated[str, Logged("what is to fit, in the singular")]

Message = Annotated[str, Logged("as the name says")]
Policy = Annotated[str | None, Logged("the policy that chose; absent for first fit", optional=True)]
Steps = Annotated[int, Logged("devices that the search tried", int)]
NodeCount = Annotated[int, Logged("nodes that were considered", int)]
Counts = Annotated[
    tuple[RequestCount, ...], Logged("for each request, the devices that passed each test", list, _counts)
]
Seconds = Annotated[
    float,
    Logged(
        "from the start of the decision until it was stored", (int, float), _milliseconds, name="duration_ms"
    ),
]
PendingSeconds = Annotated[
    float | None,
    Logged(
        "from the creation of the claim until it was stored",
        (int, float),
        _rounded,
        name="pending_seconds",
        optional=True,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision, or a finding."""

    LINES: ClassVar[tuple[Line, ...]]
    """Its log line. Where there are several, `line` chooses."""
    METRICS: ClassVar[tuple[Counted, ...]] = ()

    decision_id: Annotated[str, Logged("names one decision, also in Events, exemplars and the journal")] = (
        field(default="", compare=False)
    )
    """Allocations that were decided together share it. Empty until the decision is reported, unless the
    handler sets it."""

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


class Numbering:
    """Creates names that are unique within a run, and most likely between runs: `q7xkd-1`, `q7xkd-2`."""

    def __init__(self, random: Callable[[], float]) -> None:
        """`random` returns numbers in [0, 1), which decide the prefix of the names."""
        self._prefix = "".join(LETTERS[int(random() * len(LETTERS))] for _ in range(_PREFIX))
        self._given = 0

    def __call__(self) -> str:
        """The next name: at most 16 characters in the first 2 ** 40 decisions."""
        self._given += 1
        return f"{self._prefix}-{self._given:x}"

    def named(self, decision: Decision) -> Decision:
        """The decision with a name: its own, or a new one if it has none."""
        return decision if decision.decision_id else replace(decision, decision_id=self())


class Observer(Protocol):
    """Shows operators what is decided. Never raises, or the reconcile fails."""

    def reconciling(self, unit: Unit) -> AbstractContextManager[None]:
        """Entered for the time of one reconcile."""

    def on_answer(self, reason: str, seconds: float, decision_id: str) -> None:
        """A search ended after so many seconds. `reason` is empty when devices were granted."""

    def on_decision(self, decision: Decision) -> None:
        """A decision, with its name."""


class Reporter:
    """Names each decision, and passes it to the observer."""

    def __init__(self, names: Numbering, observer: Observer) -> None:
        self._names = names
        self._observer = observer

    def reconciling(self, unit: Unit) -> AbstractContextManager[None]:
        """Enter this for the time of one reconcile."""
        return self._observer.reconciling(unit)

    def name(self) -> str:
        """The name of one more decision."""
        return self._names()

    def answered(self, name: str, reason: str, seconds: float) -> None:
        """Report the end of a search, as `Observer.on_answer`."""
        self._observer.on_answer(reason, seconds, name)

    def report(self, decision: Decision) -> None:
        """Report a decision. It gets a name if it has none."""
        self._observer.on_decision(self._names.named(decision))
