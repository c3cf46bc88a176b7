"""What operators see: Events, findings of the doctor, the status page, the signals of all parts."""

import socket
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from reconciler.app.control import Control, Placing
from reconciler.app.evicting import Evicting
from reconciler.app.foundation import Foundation, now
from reconciler.app.from_settings import Found, Job, ownership
from reconciler.app.leadership import Candidate, Leadership, lease_signals
from reconciler.cluster.pod_writer import EventWriter
from reconciler.control.decisions.declaration import Report
from reconciler.control.intake import Intake
from reconciler.control.relocation.moves import MovesAdvice
from reconciler.control.waiting import Pending
from reconciler.operations.events_recorder import EventInbox, EventRecorder, LastingRefusals
from reconciler.operations.events_writer import Events, Notice
from reconciler.operations.findings import DoctorSchedule, UnmanagedClaims
from reconciler.operations.metrics.devices import Capacity
from reconciler.operations.page.panels import Recent
from reconciler.operations.page.routes import page_routes
from reconciler.operations.page.sources import RefusalMessages, Sources
from reconciler.operations.serving.port import Route
from reconciler.operations.serving.questions import FitEndpoint, WhatifEndpoint, whatif_routes
from reconciler.operations.telemetry import (
    Signals,
    TaskHealth,
    fleet_signals,
    liveness_signals,
    process_facts,
    server_signals,
    work_signals,
)
from reconciler.settings import Settings


class Inboxes(Struct, frozen=True):
    """Decisions for the parts that show them to operators, which are built later."""

    pending: Pending
    messages: RefusalMessages
    recent: Recent
    events: EventInbox


def inboxes_of(base: Foundation) -> Inboxes:
    """Empty ones."""
    pending = Pending()
    lasting = LastingRefusals(pending, seconds=base.settings.fixed.event_delay_seconds, clock=base.clock)
    return Inboxes(pending, RefusalMessages(pending), Recent(now), EventInbox(lasting))


def listeners(base: Foundation, inboxes: Inboxes, on_decision: Report | None) -> Iterator[Report]:
    """The listeners of every decision, in order. `on_decision` is that of the caller of `run`."""
    if base.port is not None:
        yield inboxes.messages.on_decision
        yield inboxes.recent.on_decision
    if on_decision is not None:
        yield on_decision
    if writes_events(base.settings):
        yield inboxes.events.on_decision


def writes_events(settings: Settings) -> bool:
    """Whether Events are written. In shadow mode nothing is."""
    return settings.events and settings.mode != "shadow"


def observe(
    base: Foundation,
    found: Found,
    core: Control,
    leadership: Leadership,
    inboxes: Inboxes,
    health: TaskHealth,
    placing: Placing,
    leaving: Evicting,
) -> list[Job]:
    """Build what operators see, and register the signals of all parts. Returns the jobs to run."""
    clock, intake = base.clock, core.intake
    capacity = Capacity(intake.store.snapshot, ready=intake.listed.is_set)
    jobs = placing.jobs
    signals = [
        *placing.signals,
        *leaving.signals,
        server_signals(
            found.served,
            found.off,
            last_contact=core.connection.client.last_contact,
            dropped=core.writer.dropped,
            clock=clock,
        ),
        liveness_signals(
            base.settings,
            intake,
            core.reconciler,
            metered=core.connection.metered,
            heart=base.telemetry.heart,
            tasks=health,
            stop=base.stop,
            leads=leadership.leads,
            clock=clock,
        ),
        fleet_signals(
            intake, ownership(base.settings), found.served, capacity, [one.series for one in core.plugins]
        ),
        work_signals(core.reconciler, core.failures, inboxes.pending, intake),
    ]
    if isinstance(leadership, Candidate):
        signals.append(lease_signals(leadership, clock))
    if base.port is not None:  # else nobody asks, and a simulated day would be full of beats
        jobs.append(Job("heartbeat", base.telemetry.heart.run))
    sink, host = EventWriter(core.connection.client), socket.gethostname()
    events = Events(sink, instance=host, clock=clock, now=now)
    jobs += [
        *_recorder(base, found, core, leadership, inboxes, events),
        *_unmanaged(base, found, core, events),
    ]
    doctor = _doctor(base, found, intake, events)
    if doctor is not None:
        jobs.append(Job("rounds of the doctor", doctor.run))
        signals.append(doctor.signals())
    base.telemetry.register(*signals)
    if base.port is not None:
        base.telemetry.register(
            _page(base, core, leadership, inboxes, capacity, signals, placing, leaving.moves)
        )
    return jobs


def _recorder(
    base: Foundation, found: Found, core: Control, leadership: Leadership, inboxes: Inboxes, events: Events
) -> list[Job]:
    """None where no Events are written."""
    if not writes_events(base.settings):
        return []
    recorder = EventRecorder(
        inboxes.events,
        events,
        found.served,
        core.intake.store,
        step=core.planner.next,
        leads=core.fence.up,
        still_leads=leadership.leads,
        clock=base.clock,
    )
    return [Job("notices", recorder.run, finish=recorder.finish)]


def _unmanaged(base: Foundation, found: Found, core: Control, events: Events) -> list[Job]:
    """Only with the embedded server: elsewhere, kube-scheduler allocates the claims that are not ours."""
    settings = base.settings
    if not settings.embedded or settings.mode == "shadow" or "ResourceClaim" not in found.served:
        return []
    record, version = _record(settings, events), found.served["ResourceClaim"].api_version
    checks = UnmanagedClaims(core.intake, ownership(settings), record=record, version=version)
    return [Job("unmanaged claims", checks.run)]


def _doctor(base: Foundation, found: Found, intake: Intake, events: Events) -> DoctorSchedule | None:
    """None without a status port, or if no slices are served."""
    settings = base.settings
    if base.port is None or not settings.doctor_seconds or "ResourceSlice" not in found.served:
        return None
    record, version = _record(settings, events), found.served["ResourceSlice"].api_version
    return DoctorSchedule(settings, intake.store, record=record, version=version)


def _record(settings: Settings, events: Events) -> Callable[[Iterable[Notice]], None]:
    """What takes Events: nothing where none are written."""
    return events.record if writes_events(settings) else lambda _: None


def _page(
    base: Foundation,
    core: Control,
    leadership: Leadership,
    inboxes: Inboxes,
    capacity: Capacity,
    signals: Iterable[Signals],
    placing: Placing,
    moves: Callable[[], Sequence[MovesAdvice]],
) -> Signals:
    """The page with the facts of all parts and, if enabled, the endpoints for questions."""
    intake = core.intake
    facts = [
        *process_facts(base.settings, leadership.leads),
        *(fact for one in signals for fact in one.facts),
    ]
    sources = Sources(
        intake,
        core.reconciler,
        core.planner.next,
        [one.view for one in core.plugins if one.view is not None],
        inboxes.pending,
        inboxes.messages,
        inboxes.recent,
        capacity,
        facts,
        clock=base.clock,
        now=now,
        placement=placing.view,
        moves=moves,
    )
    routes = page_routes(sources, base.stop)
    return Signals(routes=[*routes, *_questions(base.settings, intake, placing)])


def _questions(settings: Settings, intake: Intake, placing: Placing) -> Iterator[Route]:
    """The endpoints for questions, off by default."""
    if settings.status_what_if:
        store, nodes, ready = intake.store, intake.nodes, intake.listed.is_set
        whatif = WhatifEndpoint(store, nodes, intake.groups, ready=ready, policies=placing.in_use)
        yield from whatif_routes(whatif.ask)
        yield from FitEndpoint(store, nodes, ready=ready).routes()
