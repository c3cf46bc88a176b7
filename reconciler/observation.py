"""Ties what operators see to where it comes from. The only place that knows both sides."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from platform import python_version

import structlog

from reconciler.aio.heartbeat import Heartbeat
from reconciler.cluster.discovery import unserved
from reconciler.cluster.dropped import Dropped
from reconciler.cluster.kinds import Served
from reconciler.cluster.transport import Transport
from reconciler.election.campaign import Campaign
from reconciler.election.elector import Elector
from reconciler.koordinator.tallies import amount_series, device_series
from reconciler.objects.semantics import GATES
from reconciler.observe import catalogue as of
from reconciler.observe.capacity import Capacity
from reconciler.observe.fullness import Fullness
from reconciler.observe.health import Health, Progress
from reconciler.observe.meters import Meters
from reconciler.observe.port import StatusPort
from reconciler.observe.requests import Metered
from reconciler.observe.scraping import Readings, metrics_routes
from reconciler.observe.statusz import Row, Statusz
from reconciler.observe.supposing import supposing_routes
from reconciler.page.routes import page_routes
from reconciler.page.sources import Fact
from reconciler.reconcile.decisions import Decision
from reconciler.reconcile.fencing import Fence
from reconciler.reconcile.intake import Intake
from reconciler.reconcile.koordinator.picture import Picture
from reconciler.reconcile.loop import Reconciler
from reconciler.reconcile.steps import Planner
from reconciler.rounds import Rounds
from reconciler.settings import Settings
from reconciler.shards.shard import Shard
from reconciler.showing import Showing
from reconciler.supposing import Supposing

log = structlog.get_logger()

SECRET = frozenset({"status_token_file", "status_tls_key", "kubeconfig"})
"""Settings that say where a secret lies; of these it is only shown whether they are set"""
WRITES_MISSED = 2
"""Writes in a row that may time out before nothing done counts as stuck"""


class Observation:
    """Health, metrics and status of one run. Says more as the run's parts come to be."""

    def __init__(
        self,
        settings: Settings,
        *,
        stop: asyncio.Event,
        clock: Callable[[], float],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`clock` counts seconds, `now` gives the time of day with its zone."""
        self._settings = settings
        self._stop = stop
        self._clock = clock
        self._now = now
        self._served: Served | None = None
        self.meters = Meters()
        self.readings = Readings()
        self.live, self.ready = Health("livez"), Health("readyz")
        self.statusz = Statusz(version("dra-reconciler"), settings.semantics, now)
        self.leading: Callable[[], bool] = lambda: True
        """Whether this process decides"""
        self.heart = Heartbeat(self.meters.loop_lag.observe)
        self._metered: Metered | None = None
        self._port: StatusPort | None = None
        self._showing: Showing | None = None
        self._facts: list[Callable[[], Fact]] = []
        self._begin()

    def serve_on(self, port: StatusPort) -> None:
        """Serve everything on a port."""
        self._port = port
        port.add(*self.live.routes(), *self.ready.routes(), *metrics_routes(self.meters, self.readings))
        port.add(*self.statusz.routes(port))

    def metered(self, transport: Transport) -> Transport:
        """The transport, counted."""
        self._metered = metered = Metered(transport, self.meters, self._clock)
        self.readings.by(of.CACHE_AGE, lambda: dict(self._ages(metered)))
        return metered

    def tell(self, decision: Decision) -> None:
        """Count a decision."""
        self.meters.tell(decision)
        if self._showing is not None:
            self._showing.hear(decision)

    def answered(self, reason: str, seconds: float, decision_id: str) -> None:
        """Count the answer of a search."""
        self.meters.answered(reason, seconds, decision_id)

    def discovered(self, served: Served, off: frozenset[str]) -> None:
        """What the server has, and which gates are off there, is known. Logs what it lacks."""
        self._served = served
        if self._metered is not None:
            self._metered.watching(served)
        missing = unserved(served)
        if "ResourceClaim" not in served:
            log.info("claims are not served", not_served=missing, gates=sorted(off))
        elif missing or off:
            log.info("the server lacks features", not_served=missing, gates=sorted(off))
        self.ready.add("discovery", lambda: "")
        self.statusz.add("Server", lambda: self._server(served, missing, off))

    def running(
        self,
        intake: Intake,
        reconciler: Reconciler,
        planner: Planner,
        dropped: Dropped,
        machines: Picture | None,
    ) -> None:
        """The parts that decide are there, not yet at work; `machines` if it serves Koordinator."""
        assert self._served is not None
        assert self._metered is not None
        metered = self._metered
        for resource in self._served:
            self.ready.add(f"listed-{resource.plural}", _listed(intake, resource.kind))
        stalled = max(self._settings.stalled_seconds, WRITES_MISSED * self._settings.write_seconds)
        progress = Progress(
            lambda: reconciler.turns + metered.answers, lambda: self._waiting(intake), stalled, self._clock
        )
        if self._settings.status_what_if and self._port is not None:
            supposing = Supposing(intake.store, intake.nodes, whole=intake.listed.is_set)
            self._port.add(*supposing_routes(supposing.ask))
        self.live.add("workers", progress.problem)
        self.live.add("loop", lambda: self._heartless(stalled))
        self.statusz.add("Fields that the server dropped", lambda: _rows(dropped.fields))
        self.statusz.add(
            "Watches, last heard of", lambda: [(k, f"{a:.0f} s ago") for k, a in self._ages(metered)]
        )
        capacity = Capacity(intake.store.snapshot, ready=intake.listed.is_set)
        self.readings.fitting(Fullness(intake.store.snapshot, ready=intake.listed.is_set))
        self._read(intake, reconciler, dropped, capacity, machines)
        if self._port is not None:
            self._showing = Showing(intake, reconciler, planner, machines)
            sources = self._showing.sources(capacity, self._process, clock=self._clock, now=self._now)
            self._port.add(*page_routes(sources, self._stop))

    def examined_by(self, rounds: Rounds) -> None:
        """The doctor makes rounds."""
        self.readings.read(of.DOCTOR, rounds.counts)
        self.readings.single(of.DOCTOR_ROUNDS, lambda: rounds.rounds)
        self._facts.append(lambda: _findings(rounds))

    def elected(self, elector: Elector, campaign: Campaign, fence: Fence) -> None:
        """A Lease decides who writes. Who waits for it is as ready as who holds it."""
        self.leading = lambda: fence.up.is_set() and elector.leads(self._clock())
        self.readings.single(of.RIVALS, lambda: len(campaign.rivals))
        self.ready.add("shard", lambda: _overlap(elector.shard, campaign))

        def rows() -> list[Row]:
            shard = str(elector.shard) or "the whole fleet"
            return [("name", elector.shard.lease), ("holder", elector.holder), ("shard", shard)]

        self.statusz.add("Lease", rows)
        lease = elector.shard.lease
        self._facts.append(lambda: Fact("Lease", f"{lease}, held by {elector.holder or 'nobody'}"))

    def watching(self, tasks: Sequence[asyncio.Task[object]]) -> None:
        """The tasks that must not end before the run does."""

        def ended() -> str:
            names = [task.get_name() for task in tasks if task.done() and not self._stop.is_set()]
            return f"ended: {', '.join(names)}" if names else ""

        self.live.add("tasks", ended)

    def _begin(self) -> None:
        """What can be told before anything is known."""
        settings = self._settings
        self.meters.build.labels(version("dra-reconciler"), python_version(), settings.semantics).set(1)
        self.readings.single(of.LEADER, lambda: float(self.leading()))
        self.readings.single(of.RIVALS, lambda: 0.0)  # without an election there are none
        self.ready.add("discovery", lambda: "the server was not asked yet what it serves")
        self.ready.add("shutdown", lambda: "the process is ending" if self._stop.is_set() else "")
        self.statusz.add("Leader", lambda: [("leading", "yes" if self.leading() else "no")])
        self.statusz.add("Settings", lambda: settings_shown(settings))

    def _read(
        self,
        intake: Intake,
        reconciler: Reconciler,
        dropped: Dropped,
        capacity: Capacity,
        machines: Picture | None,
    ) -> None:
        queue, readings = intake.queue, self.readings
        readings.by(of.PENDING, reconciler.pending.by_reason)
        readings.single(of.TURNS, lambda: reconciler.turns)
        readings.single(of.FAILURES, lambda: reconciler.failures)
        readings.by(of.QUEUE, lambda: {"due": queue.due, "backing_off": len(queue) - queue.due})
        readings.single(of.QUEUE_AGE, lambda: queue.oldest_age)
        readings.single(of.RETRIES, lambda: queue.retries)
        readings.by(of.REFUSED_OBJECTS, lambda: _by_kind(intake))
        readings.single(of.DROPPED_FIELDS, lambda: len(dropped.fields))
        readings.holdings(capacity)
        if machines is not None:
            fleet = machines.fleet
            readings.also(of.DEVICES, lambda: device_series(fleet))
            readings.also(of.COUNTER_CAPACITY, lambda: amount_series(fleet, left=False))
            readings.also(of.COUNTER_AVAILABLE, lambda: amount_series(fleet, left=True))

    def _process(self) -> list[Fact]:
        """The process, for the top of the page."""
        if self._settings.mode == "shadow":
            state = "shadow: compares, writes nothing"
        else:
            state = "decides" if self.leading() else "standby: another replica decides"
        return [
            Fact("State", state),
            Fact("Version", f"{version('dra-reconciler')}, rules of Kubernetes {self._settings.semantics}"),
            *(fact() for fact in self._facts),
        ]

    def _waiting(self, intake: Intake) -> float:
        """For how long we could have done something, in seconds."""
        ours = intake.listed.is_set() and self.leading() and not self._stop.is_set()
        return intake.queue.oldest_age if ours else 0.0

    def _heartless(self, seconds: float) -> str:
        if self.heart.last is None or (since := self._clock() - self.heart.last) <= seconds:
            return ""
        return f"no heartbeat for {since:.0f} s"

    def _ages(self, metered: Metered) -> Iterable[tuple[str, float]]:
        now = self._clock()
        return [(kind, now - heard) for kind, heard in sorted(metered.heard.items())]

    def _server(self, served: Served, missing: Iterable[str], off: Iterable[str]) -> list[Row]:
        rows = [(resource.kind, resource.api_version) for resource in served]
        rows.append(("not served", ", ".join(missing) or "nothing that we could use"))
        rows.append(("feature gates off", ", ".join(sorted(off)) or "none, as far as can be told"))
        rows.append(("feature gates known", ", ".join(GATES)))
        return rows


def settings_shown(settings: Settings) -> list[Row]:
    """Every setting by name, without secrets and without the places where they lie."""
    rows = []
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if name in SECRET:
            value = None if value is None else "(set)"
        elif name == "server" and value is not None:
            value = _without_password(value)
        elif isinstance(value, frozenset):
            value = ", ".join(sorted(value))
        rows.append((name, "" if value is None else str(value)))
    return rows


def _without_password(url: str) -> str:
    scheme, slashes, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{slashes}{authority.rpartition('@')[2]}{slash}{path.partition('?')[0]}"


def _listed(intake: Intake, kind: str) -> Callable[[], str]:
    return lambda: f"{kind} was not listed yet" if kind in intake.unlisted else ""


def _overlap(shard: Shard, campaign: Campaign) -> str:
    others = ", ".join(f"{rival.name} of {rival.holder or 'nobody any more'}" for rival in campaign.rivals)
    return f"shard {str(shard) or 'of the whole fleet'} overlaps with Lease {others}" if others else ""


def _findings(rounds: Rounds) -> Fact:
    if not rounds.rounds:
        return Fact("Doctor", "no round yet")
    serious = sum(count for (_, severity), count in rounds.found.items() if severity == "error")
    return Fact("Doctor", f"{sum(rounds.found.values())} findings, {serious} errors", grave=serious > 0)


def _rows(fields: dict[str, str]) -> list[Row]:
    return [(field, f"is {gate} off?" if gate else "for a reason unknown") for field, gate in fields.items()]


def _by_kind(intake: Intake) -> dict[str, float]:
    counts: dict[str, float] = {}
    for kind, _ in intake.store.refused:
        counts[kind] = counts.get(kind, 0) + 1
    return counts
