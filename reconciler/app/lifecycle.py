"""Makes all parts of the process by their constructors, and runs it: the tree of its tasks, and how they
end.
"""

import asyncio
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from random import random

import structlog
from msgspec import Struct

from reconciler.aio.tasks import (
    COLLECTIONS,
    Stopped,
    forever,
    give_memory_back,
    share_memory_between_threads,
    unless,
)
from reconciler.api.migrate.special_claims import mapping, read_map
from reconciler.api.plugins import PLUGINS
from reconciler.app.control import Start, build_control, learner_of, placing, recording, switches, watch_job
from reconciler.app.evicting import check_rights, evicting
from reconciler.app.foundation import Foundation, foundation
from reconciler.app.from_settings import Found, Job, check, discovered, log_lacks, ownership, rules
from reconciler.app.leadership import Alone, Candidate, Leadership, recalls_for
from reconciler.app.observing import inboxes_of, listeners, observe
from reconciler.cluster.client import Client
from reconciler.cluster.discovery import negotiate
from reconciler.cluster.events import IsKnown
from reconciler.cluster.kinds import ON_DEMAND, Served, resource_of
from reconciler.cluster.transport import PatientTransport, Transport
from reconciler.cluster.watch import Recall, Sink, follow
from reconciler.control.audit import Auditor
from reconciler.control.decider import Decider
from reconciler.control.decisions.declaration import Report
from reconciler.control.held_room import HeldRoomKeeper
from reconciler.control.intake import Intake
from reconciler.control.loop import Reconciler
from reconciler.control.shadow import Shadow
from reconciler.control.template_maker import TemplateMaker
from reconciler.errors import Gone, ReconcilerError
from reconciler.operations.journal.recording import Recorder
from reconciler.operations.metrics.meters import Traces
from reconciler.operations.serving.port import StatusPort
from reconciler.operations.telemetry import TaskHealth, reporter
from reconciler.settings import Settings
from reconciler.state.store import Store


class Parts(Struct, frozen=True):
    """Parts that were built and do not run yet. Nothing is added to them later."""

    settings: Settings
    stop: asyncio.Event
    """Set to end the process"""
    kinds: tuple[str, ...]
    """The watched kinds"""
    reconciler: Reconciler
    shadow: Shadow | None
    """Replaces the reconciler in shadow mode"""
    leadership: Leadership
    jobs: tuple[Job, ...]
    """Run from the start until `stop` is set"""
    task_health: TaskHealth
    """Records every job that ends"""
    recorder: Recorder | None
    traces: Traces


def template_maker_of(
    settings: Settings, intake: Intake, sink: Sink, client: Client, leads: Callable[[], bool]
) -> TemplateMaker | None:
    """None if no templates are to be made. Raises Malformed for a file that is no resource map."""
    if not settings.make_templates or settings.mode == "shadow":
        return None
    # What templates are named by does not depend on classes. A mistake in the file stops the start.
    resources = mapping((), read_map(settings.resource_map), str(settings.resource_map or ""))
    return TemplateMaker(intake, sink, client, resources=resources, leads=leads)


GIVE_BACK_SECONDS = 60.0
"""How often free memory is given back to the system"""
FREEZE_SECONDS = 0.05
"""How often a listing under way is looked at"""
GROWN = 3
"""Collections of the youngest generation after which its objects count as listed. A process whose listing
fails again and again collects its garbage all the same"""


def watches(
    client: Client, served: Served, sink: Sink, recalls: Mapping[str, Recall], is_known: IsKnown
) -> Iterator[Job]:
    """A watch on each kind. `recalls` are by kind, for kinds that have one."""
    for resource in served:
        recall = recalls.get(resource.kind)
        yield watch_job(f"watch {resource.plural}", client, resource, sink, recall=recall, is_known=is_known)


def watches_on_demand(client: Client, intake: Intake, sink: Sink) -> Iterator[Job]:
    """A watch on each kind that is listed when a pod needs it."""
    for kind in ON_DEMAND:
        name = f"watch {resource_of(kind).full_name} on demand"
        yield Job(name, partial(_watch_on_demand, client, kind, intake, sink))


async def _watch_on_demand(client: Client, kind: str, intake: Intake, sink: Sink) -> None:
    await intake.wanted[kind].wait()

    def failed(exc: ReconcilerError) -> None:
        if isinstance(exc, Gone):
            intake.not_served(kind)
        else:
            intake.cannot_list(kind, str(exc))

    choose = partial(negotiate, client, kind)
    watch = follow(client, resource_of(kind), sink=sink, random=random, on_error=failed, choose=choose)
    await forever(resource_of(kind).plural, watch)


async def spare_the_collector(intake: Intake) -> None:
    """Listed objects stay, as do the pools that are built of them; to traverse them at every collection would
    block the loop for tens of milliseconds with ten thousand devices. That holds during a long listing, too.
    """
    before = gc.get_threshold()
    gc.set_threshold(*COLLECTIONS)
    gc.freeze()  # modules and classes
    try:
        starting = True
        while starting:
            await asyncio.sleep(FREEZE_SECONDS)
            starting = not intake.listed.is_set() or intake.store.supply.inventory.unbuilt
            if not starting or gc.get_count()[1] >= GROWN:
                gc.freeze()  # without a collection, which would walk it once more
        seen = 0
        while True:
            await asyncio.sleep(GIVE_BACK_SECONDS)
            young = gc.get_stats()[0]["collections"]
            if young > seen:  # otherwise next to nothing has been made since
                seen = young
                give_memory_back()
    finally:
        gc.set_threshold(*before)


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
    share_memory_between_threads()
    base = foundation(settings, transport, stop=stop, port=port)
    client = base.connection(PatientTransport(base.transport)).client
    found = await unless(stop, discovered(client, settings))
    log_lacks(found)
    await unless(stop, check_rights(settings, client))
    starts: list[Start | None] = [
        await unless(stop, plugin.prepare(client, settings, found.served)) for plugin in PLUGINS
    ]
    return _rest(base, found, [start for start in starts if start is not None], on_decision)


def _rest(base: Foundation, found: Found, starts: Sequence[Start], on_decision: Report | None) -> Parts:
    """Build what depends on the kinds that the server serves."""
    settings, clock, served = base.settings, base.clock, found.served
    inboxes = inboxes_of(base)
    told = reporter(random, base.telemetry.meters, base.traces, listeners(base, inboxes, on_decision))
    ours, semantics = ownership(settings), rules(settings, lacking=found.off)
    recorder = recording(settings, semantics, ours, base.clock)
    store = Store(semantics)
    choosing = placing(base, store, recorder)
    core = build_control(base, found, ours, store, recorder, told, inboxes.pending, choosing, starts)
    intake, client = core.intake, core.connection.client
    recalls = recalls_for(settings, served, [kind for one in core.plugins for kind in one.holders])
    if base.role is None:
        leadership: Leadership = Alone(core.fence)
    else:
        leadership = Candidate(base.role, intake, core.fence, recalls, clock=clock)
    learner = learner_of(settings, intake, core.sink, choosing, client, leadership.leads)
    sink = core.sink if learner is None else learner.take
    maker = template_maker_of(settings, intake, sink, client, leadership.leads)
    sink = sink if maker is None else maker.take
    shadow = None
    if settings.mode == "shadow":
        decider, seconds = Decider(ours, steps=settings.search_steps), settings.fixed.shadow_pending_seconds
        shadow = Shadow(intake, decider, sink, seconds, choosing.in_use, clock=clock, report=told.report)
        sink = shadow.take
    task_health = TaskHealth(base.stop)
    keeper = (
        None if core.held_room is None else HeldRoomKeeper(intake, core.held_room, writes=leadership.leads)
    )
    seconds = settings.fixed.audit_seconds
    auditor = Auditor(intake.changed, intake.store, told.report, seconds, intake.audit)
    leaving = evicting(base, core, ours, inboxes.pending, told.report, leadership.leads, keeper)
    return Parts(
        settings=settings,
        stop=base.stop,
        kinds=tuple([resource.kind for resource in served]),
        reconciler=core.reconciler,
        shadow=shadow,
        leadership=leadership,
        jobs=(
            *watches(client, served, sink, recalls, intake.skips),
            *watches_on_demand(client, intake, sink),
            Job("audit", auditor.run),
            *([] if learner is None else [Job("learn the demand", learner.run)]),
            *([] if maker is None else [Job("make templates", maker.run)]),
            *switches(settings, client, intake.pause),
            *observe(base, found, core, leadership, inboxes, task_health, choosing, leaving),
            *leaving.jobs,
            *(job for one in core.plugins for job in one.jobs(core, keeper)),
            *([] if keeper is None else [Job("write down held room", keeper.run)]),
            Job("expire nominations", partial(intake.nominating.run, clock)),
            Job("forget deleted units", core.reconciler.forget_gone),
            Job("spare the collector", partial(spare_the_collector, intake)),
        ),
        task_health=task_health,
        recorder=recorder,
        traces=base.traces,
    )


log = structlog.get_logger()


async def tasks(parts: Parts) -> None:
    """Run until `stop` is set, then let writes in flight finish, for `drain_seconds` at most, and the jobs.

    Cancelled: writes in flight may or may not be applied.
    """
    settings = parts.settings
    worker = parts.shadow or parts.reconciler
    try:
        async with asyncio.timeout(None) as deadline, asyncio.TaskGroup() as working:
            for number in range(settings.fixed.writers):
                working.create_task(worker.work(), name=f"worker {number}")
            await _jobs(parts)
            parts.reconciler.stop()
            if parts.shadow is not None:
                parts.shadow.stop()
            deadline.reschedule(asyncio.get_running_loop().time() + settings.fixed.drain_seconds)
    except TimeoutError:
        log.warning("writes aborted by drain timeout", drain_seconds=settings.fixed.drain_seconds)
    for job in parts.jobs:
        if job.finish is not None:
            await job.finish()


async def _jobs(parts: Parts) -> None:
    """Run the jobs until `stop` is set."""
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(job.run(), name=job.name) for job in parts.jobs]
        for task in running:
            task.add_done_callback(parts.task_health.ended)
        log.info("reconciling", kinds=list(parts.kinds))
        await parts.stop.wait()
        for task in running:
            task.cancel()


async def run(
    settings: Settings,
    transport: Transport,
    *,
    stop: asyncio.Event,
    on_decision: Report | None = None,
    port: StatusPort | None = None,
) -> None:
    """Reconcile until `stop` is set, then let writes in flight finish, for `drain_seconds` at most.

    `on_decision` gets every decision, after it was logged; `port` serves metrics, health and status.
    Raises Rejected if the settings or the server do not allow to start. Cancelled: writes in
    flight may or may not be applied.
    """
    try:
        parts = await build(settings, transport, stop=stop, on_decision=on_decision, port=port)
    except Stopped:
        log.info("stopped before the API server answered")
        return
    await run_parts(parts)


async def run_parts(parts: Parts) -> None:
    """Run what was built. The Lease is kept until the last write, the journal until the last decision."""
    async with AsyncExitStack() as around:
        if parts.recorder is not None:
            around.callback(parts.recorder.close)
        around.push_async_callback(parts.traces.close)
        await around.enter_async_context(parts.leadership.leading())
        await tasks(parts)
    if parts.shadow is not None:
        parts.shadow.sum_up()
    log.info("stopped")
