"""The parts that decide and write: intake, queue, planner, handlers, loop and fence; and those of plugins."""

from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from random import random
from types import MappingProxyType
from typing import Any, NamedTuple

import structlog
from msgspec import Struct

from reconciler.aio.queue import Queue
from reconciler.aio.tasks import forever
from reconciler.allocation.policies.demand import LearntDemand
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted
from reconciler.api.objects.semantics import Semantics
from reconciler.app.foundation import Connection, Foundation, now
from reconciler.app.from_settings import Found, Job, policies
from reconciler.cluster.client import Client
from reconciler.cluster.kinds import Resource, Served, config_map
from reconciler.cluster.pod_writer import PodWriter
from reconciler.cluster.transport import GuardedTransport, PauseReasons, Transport
from reconciler.cluster.watch import Sink, follow
from reconciler.cluster.writer import Writer
from reconciler.control.background_search import BackgroundSearch
from reconciler.control.claim_handler import ClaimHandler
from reconciler.control.decider import Decider, Refusal
from reconciler.control.decisions.declaration import Report, Reporter
from reconciler.control.demand import DemandConfigMap, DemandLearner, PoliciesInUse
from reconciler.control.fence import Fence
from reconciler.control.gangs.handler import GangHandler, GangWriter
from reconciler.control.gangs.planner import GangPlanner
from reconciler.control.gangs.search import GangSearch
from reconciler.control.handler import Blocked, Decide, Handler
from reconciler.control.held_room import HeldRoomKeeper, KeptConfigMap, take_over_held_room
from reconciler.control.intake import Intake
from reconciler.control.loop import Failures, Reconciler
from reconciler.control.ownership import Ownership
from reconciler.control.pausing import Pause, Switch
from reconciler.control.planner import Planner
from reconciler.control.settler import HandOver, Settler
from reconciler.control.special_claims import HandOverTerms
from reconciler.control.waiting import Pending
from reconciler.operations.journal.entries import RECORDED_SETTINGS, Header
from reconciler.operations.journal.hard_questions import HardQuestions
from reconciler.operations.journal.recording import Recorder
from reconciler.operations.page.sources import PlacementView, PluginView
from reconciler.operations.policy_comparison import PolicyComparison
from reconciler.operations.telemetry import MoreSeries, Signals
from reconciler.settings import Settings
from reconciler.state.store import Store


class Host(Struct, frozen=True):
    """What the parts of a plugin are built with."""

    base: Foundation
    intake: Intake
    pod_writer: PodWriter
    ours: Ownership
    recorder: Recorder | None
    """The journal, if there is one"""
    report: Report


class Running:
    """Does nothing. A plugin overrides what it has."""

    handler: Handler | None = None
    """Serves units of the loop, before claims are asked for"""
    holders: Iterable[str] = ()
    """Kinds that say who holds devices: a new leader lists them again before it decides"""
    view: PluginView | None = None
    """What the status page shows"""
    series: MoreSeries = MappingProxyType({})

    def sink(self, below: Sink) -> Sink:
        """Takes the changes of all watches, and passes them on to `below`."""
        return below

    def keeps_from_gang(self, pod: ObjectKey) -> Blocked | None:
        """Why a pod cannot be placed with a gang; None if it can."""

    def jobs(self, core: "Control", keeper: HeldRoomKeeper | None) -> Iterable[Job]:  # noqa: ARG002
        """Tasks beside the loop. `keeper` writes down what room is held."""
        return ()


Start = Callable[[Host], Running]
"""Builds the parts of a plugin"""


def watch_job(name: str, client: Client, resource: Resource, sink: Sink, **more: Any) -> Job:
    """A watch of one kind; `more` are arguments of `follow`."""

    async def run() -> None:
        await forever(resource.plural, follow(client, resource, sink=sink, random=random, **more))

    return Job(name, run)


log = structlog.get_logger()


def switches(settings: Settings, client: Client, pause: Pause) -> list[Job]:
    """Pause as the settings say, and follow their ConfigMap. Not in shadow mode."""
    if settings.mode == "shadow":
        return []
    if settings.pause:
        pause.set("setting", "the setting `pause` says so")
    if settings.pause_config_map is None:
        return []
    key = ObjectKey.parse(settings.pause_config_map)
    return [watch_job("watch the switch", client, config_map(key), Switch(key, pause).take)]


class Placing(NamedTuple):
    """The policies in use, and what compares them with others."""

    in_use: PoliciesInUse
    comparison: PolicyComparison | None

    def sample(self, asked: Decide, answer: Granted | Refusal) -> None:
        """Offer an answer to the comparison."""
        if self.comparison is not None:
            self.comparison.offer(asked, answer)

    @property
    def signals(self) -> list[Signals]:
        """Metrics of the comparison, and a line on the status page."""
        return [] if self.comparison is None else [self.comparison.signals()]

    @property
    def jobs(self) -> list[Job]:
        """The task of the comparison."""
        return [] if self.comparison is None else [Job("compare policies", self.comparison.run)]

    def view(self) -> PlacementView | None:
        """For the status page."""
        return None if self.comparison is None else self.comparison.view()


def placing(base: Foundation, store: Store, recorder: Recorder | None) -> Placing:
    """The policies of the settings. The journal records them. Raises Malformed for a demand file."""
    found, refused = policies(base.settings)
    for problem in refused:
        log.warning("shape of the demand refused", error=str(problem))
    in_use = PoliciesInUse(found) if recorder is None else PoliciesInUse(found, recorder.use)
    seconds = base.settings.fixed.policy_compare_seconds
    seen = base.port is not None and base.settings.mode != "shadow"
    if not seen or (in_use().first_fit and base.settings.demand is None):  # nothing to compare
        return Placing(in_use, None)
    return Placing(in_use, PolicyComparison(store, in_use, seconds=seconds, clock=base.clock))


def learner_of(
    settings: Settings,
    intake: Intake,
    sink: Sink,
    placing: Placing,
    client: Client,
    leads: Callable[[], bool],
) -> DemandLearner | None:
    """What learns the demand; None if no policy uses one, or if it is given.

    In shadow mode nothing is kept. `leads` says whether this process may write.
    """
    in_use, comparison = placing.in_use, placing.comparison
    if settings.demand is not None or not in_use().uses_demand:
        return None
    keeper = None
    if settings.demand_config_map is not None and settings.mode != "shadow":
        keeper = DemandConfigMap(client, ObjectKey.parse(settings.demand_config_map), writes=leads)
    return DemandLearner(
        intake,
        sink,
        in_use,
        keeper,
        learnt=LearntDemand(settings.fixed.demand_half_life_hours * 3600.0),
        now=now,
        comparison=(lambda: "") if comparison is None else comparison.to_json,
    )


def held_room_config_map(settings: Settings, client: Client) -> KeptConfigMap | None:
    """Where held room is written down."""
    if settings.held_room_config_map is None or settings.mode == "shadow":
        return None
    if "evict" not in (settings.preemption, settings.rebalance) and not settings.kueue_check:
        return None
    key = ObjectKey.parse(settings.held_room_config_map)

    def tell(error: str, remedy: str) -> None:
        log.warning("held room not written down", config_map=str(key), error=error, remedy=remedy)

    return KeptConfigMap(client, key, on_problem=tell)


class Control(Struct, frozen=True):
    """The parts that decide and write."""

    intake: Intake
    connection: Connection
    writer: Writer
    fence: Fence
    planner: Planner
    gang_planner: GangPlanner
    reconciler: Reconciler
    failures: Failures
    """Internal errors of other jobs"""
    sink: Sink
    """Takes the changes of every watch"""
    plugins: tuple[Running, ...]
    """The parts of plugins that are on"""
    held_room: KeptConfigMap | None
    """Where held room is written down, if it is"""


def build_control(
    base: Foundation,
    found: Found,
    ours: Ownership,
    store: Store,
    recorder: Recorder | None,
    reporter: Reporter,
    pending: Pending,
    placing: Placing,
    starts: Iterable[Start],
) -> Control:
    """Build the parts that decide and write. `recorder` is the journal, if there is one; `starts` build the
    parts of plugins.
    """
    settings, served, withdrawals, reasons = base.settings, found.served, set[str](), PauseReasons()
    clock, report = base.clock, reporter.report
    intake = _intake(base, ours, store, recorder, reporter, served, withdrawals, reasons)
    connection = base.connection(_guarded(base, reasons), watched=served)
    writer = Writer(connection.client, served, withdrawals=withdrawals, now=now)
    held_room = held_room_config_map(settings, connection.client)
    pod_writer = PodWriter(connection.client, served)
    hand_over = HandOver(intake, pod_writer)
    fence = _fence(base, intake, writer, ours, hand_over, held_room)
    planner = Planner(intake.store, intake.roster, intake.placement, ours, intake.reclaimed, placing.in_use)
    settler = Settler(intake, writer, report)
    host = Host(base, intake, pod_writer, ours, recorder, report)
    plugins = tuple([start(host) for start in starts])
    gang_planner = GangPlanner(intake.units, planner, intake.nodes.on_demand, partial(_unsuited, plugins))
    gang_search = GangSearch(intake, ours, steps=settings.search_steps)
    gang_writer = GangWriter(intake, writer, pod_writer, report)
    gangs = GangHandler(intake, gang_planner, gang_search, settler, gang_writer, clock=clock, report=report)
    decider = _decider(settings, ours)
    claims = ClaimHandler(
        intake,
        planner,
        decider,
        BackgroundSearch(intake, planner, decider, placing.sample),
        writer,
        settler,
        hand_over,
        pending,
        clock=clock,
        now=now,
        report=report,
    )
    # Gangs come first: a pod of a gang needs nothing on its own.
    handlers = [gangs, *(one.handler for one in plugins if one.handler is not None), claims]
    return Control(
        intake=intake,
        connection=connection,
        writer=writer,
        fence=fence,
        planner=planner,
        gang_planner=gang_planner,
        reconciler=Reconciler(intake, handlers, reporter, clock=clock, fence=fence, pending=pending),
        failures=Failures(),
        sink=_sink(intake, plugins),
        plugins=plugins,
        held_room=held_room,
    )


def _intake(
    base: Foundation,
    ours: Ownership,
    store: Store,
    recorder: Recorder | None,
    reporter: Reporter,
    served: Served,
    withdrawals: set[str],
    reasons: PauseReasons,
) -> Intake:
    settings, fixed = base.settings, base.settings.fixed
    return Intake(
        store,
        Queue(base=fixed.backoff_base_seconds, cap=fixed.backoff_cap_seconds, random=random),
        (resource.kind for resource in served),
        reporter.report,
        ours=ours,
        reasons=reasons,
        withdrawing=withdrawals,
        volumes=not settings.without_volumes,
        journal=None if recorder is None else recorder.note,
        terms=HandOverTerms(base.clock, now, fixed.hand_over_seconds, settings.hand_over_calm_seconds),
    )


def _decider(settings: Settings, ours: Ownership) -> Decider:
    folder = settings.keep_hard_questions
    kept = {} if folder is None else {"gave_up": HardQuestions(Path(folder)).keep}
    return Decider(ours, steps=settings.search_steps, **kept)


def _unsuited(plugins: Iterable[Running], pod: ObjectKey) -> Blocked | None:
    return next(filter(None, (one.keeps_from_gang(pod) for one in plugins)), None)


def _guarded(base: Foundation, reasons: PauseReasons) -> Transport:
    """A transport that sends no write while writes are paused. Shadow mode has its own guard."""
    return (
        base.transport if base.settings.mode == "shadow" else GuardedTransport(base.transport, reasons.check)
    )


def _sink(intake: Intake, plugins: Iterable[Running]) -> Sink:
    """Watches call the last plugin, which passes changes on to those before it and to the intake."""
    sink: Sink = intake.take
    for one in plugins:
        sink = one.sink(sink)
    return sink


def _fence(
    base: Foundation,
    intake: Intake,
    writer: Writer,
    ours: Ownership,
    hand_over: HandOver,
    held_room: KeptConfigMap | None,
) -> Fence:
    take_over = None if held_room is None else partial(_take_over, base, intake, held_room)
    patience = base.settings.write_seconds
    return Fence(
        intake, writer, ours, clock=base.clock, patience=patience, hand_over=hand_over, take_over=take_over
    )


async def _take_over(base: Foundation, intake: Intake, kept: KeptConfigMap) -> None:
    """What a new leader does before its first decision."""
    # Room is held for longer than its usual time only while the next eviction has to wait, at most as long.
    most = 2 * max(base.settings.fixed.nomination_seconds, base.settings.fixed.kueue_hold_seconds)
    await take_over_held_room(intake, kept, most_seconds=most, clock=base.clock, now=now)


def recording(
    settings: Settings, rules: Semantics, ours: Ownership, clock: Callable[[], float]
) -> Recorder | None:
    """The journal, if the settings enable it. Raises Rejected if it cannot be written."""
    if settings.journal is None:
        return None
    told = settings.model_dump(mode="json", include=set(RECORDED_SETTINGS))
    header = Header(version("dra-reconciler"), rules, ours, settings.search_steps, settings=told)
    return Recorder(Path(settings.journal), header, clock=clock)
