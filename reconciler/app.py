"""Puts the parts together: one tree of tasks, taken down in order."""

import asyncio
import gc
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from random import random
from typing import Any

import structlog

from reconciler.aio.collector import COLLECTIONS
from reconciler.aio.queue import Queue
from reconciler.aio.tasks import Stopped, forever, unless
from reconciler.beside import guarded, shadowing, sidelines, started
from reconciler.cluster.client import Client
from reconciler.cluster.cursor import Decode
from reconciler.cluster.discovery import discover, discover_at_least_pods
from reconciler.cluster.echoes import Echoes
from reconciler.cluster.features import missing_gates
from reconciler.cluster.kinds import Resource, Served
from reconciler.cluster.koordinator import with_devices
from reconciler.cluster.podwriter import PodWriter
from reconciler.cluster.transport import Transport
from reconciler.cluster.watch import Recall, Sink, follow
from reconciler.cluster.withdrawals import Withdrawals
from reconciler.cluster.writer import Writer
from reconciler.errors import Rejected
from reconciler.inventory.store import Store
from reconciler.journal.entries import DECIDING, Header
from reconciler.journal.recording import Recorder
from reconciler.koordinator.fleet import Fleet
from reconciler.koordinator.reading import read_device
from reconciler.koordinator.rules import Rules
from reconciler.koordinator.rules import Semantics as DeviceSemantics
from reconciler.leading import Office, campaigning, shard_of
from reconciler.legacy.reading import read
from reconciler.notices import Notices
from reconciler.objects.semantics import Semantics, with_gates
from reconciler.observation import Observation
from reconciler.observe.port import StatusPort
from reconciler.observe.tracing import tracing
from reconciler.operations.logs.decision_log import log_decision
from reconciler.reconcile.claims import ClaimHandler
from reconciler.reconcile.deciding import Decider
from reconciler.reconcile.decisions import Answered, Decision, Tell
from reconciler.reconcile.fencing import Fence
from reconciler.reconcile.handler import Handler
from reconciler.reconcile.intake import Intake
from reconciler.reconcile.koordinator.intake import DeviceIntake
from reconciler.reconcile.koordinator.picture import Picture
from reconciler.reconcile.koordinator.pods import KoordinatorHandler
from reconciler.reconcile.loop import Reconciler
from reconciler.reconcile.numbering import Numbering
from reconciler.reconcile.ownership import Ownership
from reconciler.reconcile.pausing import PauseReasons
from reconciler.reconcile.steps import Planner
from reconciler.reconcile.units import Unit
from reconciler.rounds import Rounds
from reconciler.settings import Settings

log = structlog.get_logger()


async def run(
    settings: Settings,
    transport: Transport,
    *,
    stop: asyncio.Event,
    tell: Tell | None = None,
    port: StatusPort | None = None,
) -> None:
    """Reconcile until `stop` is set, then let begun writes finish, for `drain_seconds` at most.

    `tell` hears every decision, after it was logged; on `port` metrics, health and status are served.
    Raises Rejected when the settings or the server do not allow to begin. Cancelled: writes under
    way may or may not be applied.
    """
    ours = ownership(settings)
    loop = asyncio.get_running_loop()
    seen = Observation(settings, stop=stop, clock=loop.time)
    if port is not None:
        seen.serve_on(port)
    office = Office(settings, transport, clock=loop.time)
    reasons = PauseReasons()
    door = guarded(settings, office.door, reasons)
    traces = tracing(wanted=settings.traces)
    client = Client(traces.transport(seen.metered(door)), write_seconds=settings.write_seconds)
    try:
        served, off = await unless(stop, _discovered(client, settings))
    except Stopped:
        log.info("stopped before the server answered")
        return
    queue: Queue[Unit] = Queue(
        base=settings.backoff_base_seconds, cap=settings.backoff_cap_seconds, random=random
    )
    office.serving(served)
    seen.discovered(served, off)
    names = Numbering(random)
    hearing = [seen.tell, *([tell] if tell is not None else [])]
    announce = _announcing(names, hearing)
    kinds = (resource.kind for resource in served)
    semantics = rules(settings, lacking=off)
    recorder = recording(settings, semantics, ours)
    store = Store(semantics) if recorder is None else recorder.store
    withdrawals = Withdrawals()
    intake = Intake(store, queue, kinds, announce, ours=ours, reasons=reasons, withdrawing=withdrawals)
    echoes = Echoes(holds=intake.holds, tell=intake.catch_up)
    writer = Writer(client, served, echoes=echoes, withdrawals=withdrawals, now=lambda: datetime.now(UTC))
    fence = Fence(intake, writer, ours, clock=loop.time, patience=settings.write_seconds)
    planner = Planner(intake.store, intake.roster, intake.nodes, ours, intake.yielded)
    claims = ClaimHandler(
        intake,
        planner,
        Decider(ours, steps=settings.search_steps),
        writer,
        clock=loop.time,
        tell=announce,
        journal=recorder.decided if recorder else None,
    )
    handlers: list[Handler[Any, Any, Any]] = [claims]
    machines: Picture | None = None
    sink, decoders = intake.take, dict[str, Decode]()
    if settings.koordinator:
        fleet = Fleet(Rules(DeviceSemantics(settings.koordinator_semantics)))
        machines = recorder.machines(fleet, announce) if recorder else Picture(fleet, announce)
        devices = DeviceIntake(machines, intake)
        pods = KoordinatorHandler(
            machines,
            devices,
            intake,
            PodWriter(client, served),
            clock=loop.time,
            tell=announce,
            journal=recorder.equipped if recorder else None,
        )
        handlers = [pods, claims]
        sink, decoders = devices.take, {"Device": read_device}
    reconciler = Reconciler(
        intake,
        handlers,
        clock=loop.time,
        tell=announce,
        names=names,
        answered=_both(seen.answered, traces.answered),
        fence=fence,
        around=traces.turn,
    )
    notices = Notices(client, served, intake.store, step=planner.next, clock=loop.time)
    shadow = shadowing(settings, intake, ours, sink, clock=loop.time, tell=announce)
    if shadow is not None:
        sink = shadow.take
    seen.running(intake, reconciler, planner, writer.dropped, machines)
    async with AsyncExitStack() as around:
        around.callback(recorder.close if recorder else _nothing)
        around.push_async_callback(traces.close)
        # Until the last write is over.
        await around.enter_async_context(campaigning(office, intake, fence, seen))
        try:
            async with asyncio.timeout(None) as deadline, asyncio.TaskGroup() as working:
                for number in range(settings.writers):
                    working.create_task((shadow or reconciler).work(), name=f"worker {number}")
                async with asyncio.TaskGroup() as watching:
                    sources = [
                        watching.create_task(
                            _watch(
                                client,
                                resource,
                                sink,
                                decoders.get(resource.kind, read),
                                office.recalls.get(resource.kind),
                                echoes,
                            ),
                            name=f"watch {resource.plural}",
                        )
                        for resource in served
                    ]
                    if port is not None:  # else nobody asks, and a simulated day would be full of beats
                        sources.append(watching.create_task(seen.heart.run(), name="heartbeat"))
                    sources += started(watching, sidelines(settings, client, intake, announce))
                    if settings.events and shadow is None:
                        hearing.append(notices.hear)
                        sources.append(watching.create_task(notices.run(), name="notices"))
                    if port is not None and settings.doctor_seconds and "ResourceSlice" in served:
                        telling = settings.events and shadow is None
                        rounds = Rounds(
                            settings,
                            intake.store,
                            tell=notices.events.tell if telling else lambda _: None,
                            version=served["ResourceSlice"].api_version,
                        )
                        seen.examined_by(rounds)
                        sources.append(watching.create_task(rounds.run(), name="rounds of the doctor"))
                    seen.watching(list(sources))
                    sources.append(
                        watching.create_task(_spare_the_collector(intake), name="spare the collector")
                    )
                    log.info("reconciling", kinds=[resource.kind for resource in served])
                    await stop.wait()
                    for source in sources:
                        source.cancel()
                reconciler.stop()
                if shadow is not None:
                    shadow.stop()
                deadline.reschedule(loop.time() + settings.drain_seconds)
        except TimeoutError:
            log.warning("writes cut off", drain_seconds=settings.drain_seconds)
    if shadow is not None:
        shadow.sum_up()
    log.info("stopped")


async def _discovered(client: Client, settings: Settings) -> tuple[Served, frozenset[str]]:
    """What the server has, and the feature gates that it lacks."""
    if not settings.koordinator:
        served = await discover(client)
    else:
        served = await with_devices(client, await _discovered_beside_devices(client, settings))
    return served, await missing_gates(client, served)


async def _discovered_beside_devices(client: Client, settings: Settings) -> Served:
    """Claims may be missing there unless the settings are about them."""
    if settings.mode != "shadow" and not (
        settings.all_claims or settings.own_drivers or settings.own_classes
    ):
        return await discover_at_least_pods(client)
    try:
        return await discover(client)
    except Rejected as exc:
        remedy = (
            "To give Koordinator's devices alone, drop --own-driver, --own-class, --all-claims, --mode shadow"
        )
        raise Rejected(f"{exc} {remedy}") from exc


async def _watch(
    client: Client, resource: Resource, sink: Sink, decode: Decode, recall: Recall | None, echoes: Echoes
) -> None:
    watch = follow(client, resource, sink=sink, random=random, decode=decode, recall=recall, echoes=echoes)
    await forever(resource.plural, watch)


async def _spare_the_collector(intake: Intake) -> None:
    """What was listed stays; to walk it at every garbage collection would hold the loop, for tens of
    milliseconds with ten thousand devices. Next to no garbage of ours is circular.
    """
    before = gc.get_threshold()
    gc.set_threshold(*COLLECTIONS)
    try:
        await intake.listed.wait()
        gc.freeze()  # without a collection, which would walk it once more
        await asyncio.Event().wait()
    finally:
        gc.set_threshold(*before)


def ownership(settings: Settings) -> Ownership:
    """What the settings give us alone. Raises Rejected when that is nothing on a live cluster."""
    ours = Ownership(
        all_claims=settings.all_claims,
        drivers=settings.own_drivers,
        classes=settings.own_classes,
        alone=settings.embedded,
        shard=shard_of(settings),
    )
    if settings.mode == "shadow" and not ours.writes:  # nothing is written, so nothing needs to be ours
        return replace(ours, alone=True)
    if not ours.writes and not settings.koordinator:
        raise Rejected(
            "no driver or class is owned, so nothing may be written: the API does not protect a device "
            "from two allocators. Name what is yours alone with --own-driver or --own-class, or say with "
            "--koordinator that Koordinator's devices are"
        )
    return ours


def rules(settings: Settings, *, lacking: frozenset[str] = frozenset()) -> Semantics:
    """The rules to follow. Raises Rejected for a feature gate that is not known."""
    gates = with_gates(settings.feature_gates, lacking=lacking)
    return Semantics(settings.semantics, gates, frozenset(settings.group_modes.items()))


def _both(first: Answered, second: Answered) -> Answered:
    def answered(reason: str, seconds: float, decision_id: str) -> None:
        first(reason, seconds, decision_id)
        second(reason, seconds, decision_id)

    return answered


def _nothing() -> None:
    """There is nothing to be closed."""


def recording(settings: Settings, rules: Semantics, ours: Ownership) -> Recorder | None:
    """The journal that the settings want. Raises Rejected when it cannot be written."""
    if settings.journal is None:
        return None
    told = settings.model_dump(mode="json", include=set(DECIDING))
    header = Header(version("dra-reconciler"), rules, ours, settings.search_steps, settings=told)
    return Recorder(Path(settings.journal), header)


def _announcing(names: Numbering, tells: Sequence[Tell]) -> Tell:
    def announce(decision: Decision) -> None:
        decision = names.named(decision)
        log_decision(decision)
        for tell in tells:
            tell(decision)

    return announce
