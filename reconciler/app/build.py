"""Builds the parts of a run by their constructors, in the order in which they need each other."""

import asyncio
from functools import partial
from random import random

from reconciler.aio.tasks import unless
from reconciler.app.coexistence import shadow_of, switches
from reconciler.app.control import Control, build_control, recording
from reconciler.app.discovery import Found, discovered, log_lacks
from reconciler.app.evicting import check_rights, evicting
from reconciler.app.foundation import Foundation, foundation
from reconciler.app.from_settings import check, ownership, requests_nodes, rules
from reconciler.app.held_room import keeper_of
from reconciler.app.job import Job
from reconciler.app.jobs import audit, sparing_the_collector, watches, watches_on_demand
from reconciler.app.kueue import kinds_for_check, kueue_jobs
from reconciler.app.leadership import Alone, Candidate, recalls_for
from reconciler.app.observing import inboxes_of, listeners, observe
from reconciler.app.parts import Parts
from reconciler.app.placing import learner_of, placing
from reconciler.app.templates import template_maker_of
from reconciler.cluster.kueue import KueueKinds
from reconciler.cluster.transport import Transport
from reconciler.control.decisions.decision import Report
from reconciler.control.decisions.ids import Numbering
from reconciler.control.ownership import Ownership
from reconciler.control.reporter import Reporter
from reconciler.operations.observer import OperationsObserver
from reconciler.operations.serving.port import StatusPort
from reconciler.operations.telemetry.task_health import TaskHealth
from reconciler.settings import Settings
from reconciler.state.store import Store


async def build(
    settings: Settings,
    transport: Transport,
    *,
    stop: asyncio.Event,
    on_decision: Report | None = None,
    port: StatusPort | None = None,
) -> Parts:
    """Build in two steps: first what serves the status port, the rest when the API server has responded.

    `on_decision` gets every decision. Raises Rejected if the settings or the server do not allow to start,
    and Stopped if `stop` is set before the server has responded.
    """
    check(settings)
    base = foundation(settings, transport, stop=stop, port=port)
    found = await unless(stop, discovered(base.connection(base.transport).client, settings))
    log_lacks(found)
    await unless(stop, check_rights(settings, base.connection(base.transport).client))
    if requests_nodes(settings):
        from reconciler.app.provisioning import check_provisioning  # noqa: PLC0415 - see there

        await unless(stop, check_provisioning(base.connection(base.transport).client))
    kueue = await unless(stop, kinds_for_check(settings, base.connection(base.transport).client))
    return _rest(base, found, kueue, on_decision)


def _rest(base: Foundation, found: Found, kueue: KueueKinds | None, on_decision: Report | None) -> Parts:
    """Build what depends on the kinds that the server serves."""
    settings, clock, served = base.settings, base.clock, found.served
    inboxes = inboxes_of(base)
    observer = OperationsObserver(base.telemetry.meters, base.traces, listeners(base, inboxes, on_decision))
    reporter = Reporter(Numbering(random), observer)
    ours, semantics = ownership(settings), rules(settings, lacking=found.off)
    recorder = recording(settings, semantics, ours)
    store = Store(semantics) if recorder is None else recorder.store
    choosing = placing(base, store, recorder)
    core = build_control(base, found, ours, store, recorder, reporter, inboxes.pending, choosing)
    intake, client = core.intake, core.connection.client
    recalls = recalls_for(settings, served)
    if base.role is None:
        leadership: Alone | Candidate = Alone(core.fence)
    else:
        leadership = Candidate(base.role, intake, core.fence, recalls, clock=clock)
    learner = learner_of(settings, intake, core.sink, choosing, client, leadership.leads)
    sink = core.sink if learner is None else learner.take
    maker = template_maker_of(settings, intake, sink, client, leadership.leads)
    sink = sink if maker is None else maker.take
    shadow = shadow_of(settings, intake, ours, sink, choosing.in_use, clock=clock, report=reporter.report)
    sink = sink if shadow is None else shadow.take
    task_health = TaskHealth(base.stop)
    keeper = None if core.held_room is None else keeper_of(intake, core.held_room, leadership.leads)
    leaving = evicting(base, core, ours, inboxes.pending, recorder, reporter.report, leadership.leads, keeper)
    return Parts(
        settings=settings,
        stop=base.stop,
        kinds=tuple([resource.kind for resource in served]),
        reconciler=core.reconciler,
        shadow=shadow,
        leadership=leadership,
        jobs=(
            *watches(client, served, sink, core.decoders, recalls, core.echoes),
            *watches_on_demand(client, intake, sink),
            audit(intake, reporter.report, settings.audit_seconds),
            *([] if learner is None else [Job("learn the demand", learner.run)]),
            *([] if maker is None else [Job("make templates", maker.run)]),
            *switches(settings, client, intake.pause),
            *observe(base, found, core, leadership, inboxes, task_health, choosing, leaving),
            *leaving.jobs,
            *_provisioning(base, core, ours, reporter.report),
            *kueue_jobs(base, core, served, kueue, ours, reporter.report, keeper),
            *([] if keeper is None else [Job("write down held room", keeper.run)]),
            Job("expire nominations", partial(intake.nominating.run, clock)),
            sparing_the_collector(intake),
        ),
        task_health=task_health,
        recorder=recorder,
        traces=base.traces,
    )


def _provisioning(base: Foundation, core: Control, ours: Ownership, report: Report) -> list[Job]:
    if not requests_nodes(base.settings):
        return []
    from reconciler.app.provisioning import provisioning_jobs  # noqa: PLC0415 - see there

    return provisioning_jobs(base, core, ours, report)
