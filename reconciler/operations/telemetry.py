"""Health, metrics and status of a process, and the signals by which its parts contribute to them."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib.metadata import version
from platform import python_version
from typing import Any

import structlog
from msgspec import Struct, field

from reconciler.aio.tasks import Heartbeat
from reconciler.cluster.target import without_password
from reconciler.control.decisions.declaration import Decision, LoggedField, Report, Reporter
from reconciler.operations.metrics import catalogue as of
from reconciler.operations.metrics.meters import (
    Meters,
    Reading,
    Readings,
    Refresh,
    Traces,
    labelled,
    metrics_routes,
    single,
)
from reconciler.operations.page.sources import Fact
from reconciler.operations.serving.port import Check, Health, Route, Row, Section, StatusPort, Statusz
from reconciler.settings import Settings


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
