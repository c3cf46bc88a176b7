"""Health, metrics and status of a process, and what each of its parts contributes to them.

Parts contribute to `/statusz` and to the header of the page, too.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib.metadata import version
from platform import python_version
from typing import Any

import structlog
from msgspec import Struct, field

from reconciler.aio.tasks import Heartbeat
from reconciler.api.objects.semantics import GATES, spelled
from reconciler.cluster.discovery import unserved
from reconciler.cluster.kinds import Served
from reconciler.cluster.target import without_password
from reconciler.cluster.writer import Dropped
from reconciler.control.decisions.declaration import Decision, LoggedField, Report, Reporter
from reconciler.control.intake import Intake
from reconciler.control.loop import Failures, Reconciler
from reconciler.control.ownership import Ownership
from reconciler.control.relocation.moves import MovesAdvice, StandingAdvice
from reconciler.control.relocation.relocator import RoomLine, StandingRoom
from reconciler.control.waiting import Pending
from reconciler.errors import counted
from reconciler.operations.metrics import catalogue as of
from reconciler.operations.metrics import devices
from reconciler.operations.metrics.meters import (
    Metered,
    Meters,
    Reading,
    Readings,
    Refresh,
    Traces,
    Values,
    labelled,
    metrics_routes,
    single,
)
from reconciler.operations.page.sources import Fact
from reconciler.operations.serving.port import (
    Check,
    Health,
    Progress,
    Route,
    Row,
    Section,
    StatusPort,
    Statusz,
)
from reconciler.settings import Settings
from reconciler.state.nominations import NomineeKind


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


SECRET = frozenset({"status_token_file", "status_tls_key", "kubeconfig"})
"""Settings with the path of a secret; only whether they are set is shown"""


def settings_shown(settings: Settings) -> list[Row]:
    """Every setting by name, without secrets and their paths."""
    rows = []
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if name in SECRET:
            value = None if value is None else "(set)"
        elif name == "server" and value is not None:
            value = without_password(value)
        elif isinstance(value, frozenset):
            value = ", ".join(sorted(value))
        rows.append((name, "" if value is None else str(value)))
    return rows


@cache
def our_version() -> str:
    """The version of this program; its file is read once."""
    return version("dra-reconciler")


class Telemetry:
    """Serves the status port from the start. Parts that are created later register their signals."""

    def __init__(
        self,
        settings: Settings,
        *,
        stop: asyncio.Event,
        now: Callable[[], datetime],
        lease: str,
        port: StatusPort | None = None,
    ) -> None:
        """`stop` is set when the process ends; `now` returns the time of day with its zone; `lease` names the
        Lease that decides who leads, and is empty without one. Without a `port`, nothing is served.
        """
        self.meters = Meters()
        self.heart = Heartbeat(self.meters.loop_lag.observe)
        self.live, self.ready = Health("livez"), Health("readyz")
        self.readings = Readings()
        self._statusz = Statusz(our_version(), settings.semantics, now)
        self._port = port
        self.meters.build.labels(our_version(), python_version(), settings.semantics).set(1)
        self.register(_first_signals(settings, stop, lease))
        if port is not None:
            port.add(*self.live.routes(), *self.ready.routes(), *metrics_routes(self.meters, self.readings))
            port.add(*self._statusz.routes(port))

    def register(self, *signals: Signals) -> None:
        """Add signals. A signal replaces an earlier one of the same name."""
        for one in signals:
            for name, check in one.live.items():
                self.live.add(name, check)
            for name, check in one.ready.items():
                self.ready.add(name, check)
            for title, section in one.sections.items():
                self._statusz.add(title, section)
            self.readings.add(one.readings, one.refresh)
            if self._port is not None:
                self._port.add(*one.routes)


def _first_signals(settings: Settings, stop: asyncio.Event, lease: str) -> Signals:
    """Signals before discovery. A candidate is not the leader yet."""
    return Signals(
        ready={
            "discovery": lambda: "the API server has not answered yet",
            "shutdown": lambda: "the process is shutting down" if stop.is_set() else "",
        },
        sections={
            "Leader": lambda: [("leading", "no" if lease else "yes")],
            "Settings": lambda: settings_shown(settings),
        },
        # Without leader election there are no rivals.
        readings=[labelled(of.LEADER, lambda: {lease: float(not lease)}), single(of.RIVALS, lambda: 0.0)],
    )


def process_facts(settings: Settings, leads: Callable[[], bool]) -> Sequence[Callable[[], Fact]]:
    """Mode and version of the process. `leads` tells whether it is the leader."""

    def mode() -> str:
        if settings.mode == "shadow":
            return "shadow (compares only, writes nothing)"
        return "allocating" if leads() else "standby (another replica allocates)"

    release = f"{our_version()} (allocation rules of Kubernetes {settings.semantics})"
    return [lambda: Fact("Mode", mode()), lambda: Fact("Version", release)]


class TaskHealth:
    """Records tasks that end. At the end of the process that is no failure."""

    def __init__(self, stop: asyncio.Event) -> None:
        """`stop` is set when the process ends."""
        self._stop = stop
        self._ended: list[str] = []

    def ended(self, task: asyncio.Task[Any]) -> None:
        """Record the end of a task; a callback for `Task.add_done_callback`."""
        self._ended.append(task.get_name())

    def problem(self) -> str:
        """The tasks that ended early; empty if none."""
        return f"ended: {', '.join(self._ended)}" if self._ended and not self._stop.is_set() else ""


def reporter(
    random: Callable[[], float], meters: Meters, traces: Traces, listeners: Iterable[Report]
) -> Reporter:
    """Reports decisions: each is logged and counted, then the `listeners` get it in their order."""

    def answered(reason: str, seconds: float, decision_id: str) -> None:
        meters.answered(reason, seconds, decision_id)
        traces.answered(reason, seconds, decision_id)

    every = log_decision, meters.on_decision, *listeners
    return Reporter(random, every, reconciling=traces.turn, answered=answered)


log = structlog.get_logger(__name__)


@cache
def _logged_fields(kind: type[Decision]) -> tuple[LoggedField, ...]:
    return tuple(kind.logged_fields())


def log_decision(decision: Decision) -> None:
    """Log a decision."""
    line = decision.line
    fields: dict[str, Any] = {}
    for attribute, name, logged in _logged_fields(type(decision)):  # type: ignore[arg-type]
        value = getattr(decision, attribute)
        if value is None and logged.optional:
            continue
        fields[name] = value if logged.write is None else logged.write(value)
    getattr(log, line.level)(line.event, **fields)


WRITES_MISSED = 2
"""Consecutive write timeouts that do not count as stuck"""


def work_signals(reconciler: Reconciler, failures: Failures, pending: Pending, intake: Intake) -> Signals:
    """Reconciles, failures, queue and pending claims."""
    queue = intake.queue
    return Signals(
        readings=[
            labelled(of.PENDING, pending.by_reason),
            labelled(of.PENDING_IN, lambda: largest_namespaces(pending.by_namespace())),
            labelled(of.HELD_ROOM, lambda: _held_room(intake)),
            single(of.TURNS, lambda: reconciler.reconciles),
            single(of.FAILURES, lambda: reconciler.failures + failures.count),
            labelled(of.QUEUE, lambda: {"due": queue.due, "backing_off": len(queue) - queue.due}),
            single(of.QUEUE_AGE, lambda: queue.oldest_age),
            single(of.RETRIES, lambda: queue.retries),
        ]
    )


def largest_namespaces(by_namespace: Mapping[str, int]) -> dict[str, float]:
    """Those with most pending claims, and the sum of the others. No namespace is called `_other`."""
    ordered = list(by_namespace.items())
    others = sum(count for _, count in ordered[of.MAX_NAMESPACES :])
    return {**dict(ordered[: of.MAX_NAMESPACES]), **({of.OTHER: others} if others else {})}


def _held_room(intake: Intake) -> dict[str, float]:
    """What room is held for -> devices."""
    found = dict.fromkeys(map(str, NomineeKind), 0.0)
    for one in intake.store.nominations:
        found[one.nominee.kind] += len(one.devices)
    return found


def liveness_signals(
    settings: Settings,
    intake: Intake,
    reconciler: Reconciler,
    *,
    metered: Metered,
    heart: Heartbeat,
    tasks: TaskHealth,
    stop: asyncio.Event,
    leads: Callable[[], bool],
    clock: Callable[[], float],
) -> Signals:
    """The checks of `/livez`. `leads` tells whether this process is the leader; `clock` is the loop's."""
    stalled = max(settings.fixed.stalled_seconds, WRITES_MISSED * settings.write_seconds)

    def waiting() -> float:
        """Age of the oldest due work that this process may do, in seconds."""
        ours = intake.listed.is_set() and leads() and not stop.is_set()
        return intake.queue.oldest_age if ours else 0.0

    def heartless() -> str:
        if heart.last is None or (since := clock() - heart.last) <= stalled:
            return ""
        return f"no heartbeat for {since:.0f} s"

    progress = Progress(lambda: reconciler.reconciles + metered.answers, waiting, stalled, clock)
    return Signals(live={"workers": progress.problem, "loop": heartless, "tasks": tasks.problem})


SILENT_SECONDS = 180.0
"""After which what is known may be outdated: twice the silence after which a watch begins anew"""


def server_signals(
    served: Served,
    off: frozenset[str],
    *,
    last_contact: Mapping[str, float],
    dropped: Dropped,
    clock: Callable[[], float],
) -> Signals:
    """`off` are feature gates that the server lacks; `last_contact` is that of the client that watches;
    `clock` counts seconds of the event loop.
    """
    kinds = sorted(resource.kind for resource in served)
    missing = unserved(served)

    def ages() -> Iterable[tuple[str, float]]:
        now = clock()
        return [(kind, now - last_contact[kind]) for kind in kinds if kind in last_contact]

    def silent() -> str:
        late = [f"{kind} for {age:.0f} s" for kind, age in ages() if age > SILENT_SECONDS]
        return f"the API server sent nothing of {', '.join(late)}" if late else ""

    return Signals(
        ready={"discovery": lambda: "", "contact": silent},
        sections={
            "Server": lambda: _server(served, missing, off),
            "Fields dropped by the API server": lambda: _dropped_rows(dropped.fields),
            "Last event of each watch": lambda: [(kind, f"{age:.0f} s ago") for kind, age in ages()],
        },
        readings=[
            labelled(of.CACHE_AGE, lambda: dict(ages())),
            single(of.DROPPED_FIELDS, lambda: len(dropped.fields)),
        ],
    )


def _server(served: Served, missing: Iterable[str], off: Iterable[str]) -> list[Row]:
    rows = [(resource.kind, resource.api_version) for resource in served]
    rows.append(("not served", ", ".join(missing) or "none"))
    rows.append(("feature gates off", ", ".join(sorted(off)) or "none detected"))
    rows.append(("feature gates known", ", ".join(map(spelled, GATES))))
    return rows


def _dropped_rows(fields: dict[str, str]) -> list[Row]:
    return [
        (field, f"is the feature gate {gate} off?" if gate else "unknown cause")
        for field, gate in fields.items()
    ]


MoreSeries = Mapping[str, Callable[[], Values]]
"""Name of a metric of devices -> further series of it"""


def fleet_signals(
    intake: Intake, ours: Ownership, served: Served, capacity: devices.Capacity, more: Sequence[MoreSeries]
) -> Signals:
    """`more` are the series of plugins."""
    store, objects = intake.store, devices.ObjectCounts(intake, ours)
    fits = devices.ProfileFits(store.snapshot, ready=intake.listed.is_set)
    return Signals(
        ready={f"listed-{resource.plural}": _listed(intake, resource.kind) for resource in served},
        readings=[
            *devices.profile_readings(fits),
            *objects.readings(),
            labelled(of.REFUSED_OBJECTS, lambda: Counter(kind for kind, _ in store.refused)),
            *(_joined(reading, more) for reading in devices.capacity_readings(capacity)),
        ],
        refresh=[capacity.refresh, fits.refresh, objects.refresh],
    )


def _joined(reading: Reading, more: Sequence[MoreSeries]) -> Reading:
    """The same metric with the series of plugins appended."""
    sources = [reading.source, *(one[reading.spec.name] for one in more if reading.spec.name in one)]
    return Reading(reading.spec, lambda: [value for source in sources for value in source()])


def _listed(intake: Intake, kind: str) -> Callable[[], str]:
    return lambda: f"{kind} is not listed yet" if kind in intake.unlisted else ""


MOVES_TITLE = "Moves for more room"


def moves_signals(standing: StandingAdvice) -> Signals:
    """The standing advice as metrics, on the page and in `/statusz`."""
    return Signals(
        readings=[labelled(of.MOVES_GAIN, standing.gains), labelled(of.MOVES_ADVISED, standing.moves)],
        facts=[lambda: _moves_fact(standing)],
        sections={
            MOVES_TITLE: lambda: [(one.goal, _told_moves_in_full(one, standing)) for one in standing.lines]
        },
    )


def _moves_fact(standing: StandingAdvice) -> Fact:
    """A panel of the page has the moves."""
    texts = [_told_moves(one, standing) for one in standing.lines if one.moves]
    return Fact(MOVES_TITLE, "; ".join(texts) or "no plan now")


def _told_moves_in_full(advice: MovesAdvice, standing: StandingAdvice) -> str:
    """With each move: `...: pod a from n0 to n1, ...`"""
    moves = f": {', '.join(map(str, advice.moves))}" if advice.moves else ""
    return f"{_told_moves(advice, standing)}{moves}"


def _told_moves(advice: MovesAdvice, standing: StandingAdvice) -> str:
    """`device of whole: 3 instead of 1 after 2 moves`"""
    if not advice.moves:
        return advice.why or f"{advice.before} of {advice.counted}: nothing to do"
    count = len(advice.moves)
    note = " (budgets not considered)" if standing.without_budgets else ""
    return f"{advice.counted}: {advice.after} instead of {advice.before} after {counted(count, 'move')}{note}"


MOST_PLANS = 5
"""Plans that the header of the page names; /statusz has all"""


def room_signals(standing: StandingRoom) -> Signals:
    """The standing advice as a metric, on the page and in `/statusz`."""
    return Signals(
        readings=[labelled(of.ROOM_ADVICE, standing.counts)],
        facts=[lambda: _room_fact(standing)],
        sections={"Room by evictions": lambda: [(str(one.unit), _told_room(one)) for one in standing.lines]},
    )


def _room_fact(standing: StandingRoom) -> Fact:
    lines = standing.lines
    texts = [f"{one.unit}: {_told_room(one)}" for one in lines[:MOST_PLANS]]
    more = len(lines) - len(texts)
    return Fact(
        "Room by evictions", "; ".join([*texts, *([f"{more} more"] if more > 0 else [])]) or "no plan now"
    )


def _told_room(line: RoomLine) -> str:
    plan = line.plan
    pods = ", ".join(str(victim.key) for victim in plan.victims)
    nodes = ", ".join(dict.fromkeys(place.node for place in plan.places))
    return f"on {nodes} without {pods}" + (f" (not evicted: {plan.advice})" if plan.advice else "")
