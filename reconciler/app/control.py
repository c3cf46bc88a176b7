"""The parts that decide and write: intake, queue, planner, handlers, loop and fence."""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from random import random
from typing import Any, NamedTuple

from msgspec import Struct

from reconciler.aio.queue import Queue
from reconciler.allocation.koordinator.fleet import Fleet
from reconciler.api.koordinator.reading import read_device
from reconciler.api.objects.semantics import Semantics
from reconciler.app.coexistence import guarded
from reconciler.app.discovery import Found
from reconciler.app.foundation import Connection, Foundation, now
from reconciler.app.held_room import held_room_config_map, takeover_of
from reconciler.app.placing import Placing
from reconciler.cluster.cursor import Decode
from reconciler.cluster.echoes import Echoes
from reconciler.cluster.pause_reasons import PauseReasons
from reconciler.cluster.podwriter import PodWriter
from reconciler.cluster.watch import Sink
from reconciler.cluster.withdrawals import Withdrawals
from reconciler.cluster.writer import Writer
from reconciler.control.claim_handler import ClaimHandler
from reconciler.control.decider import Decider
from reconciler.control.failures import Failures
from reconciler.control.fence import Fence
from reconciler.control.gangs.handler import GangHandler
from reconciler.control.gangs.planner import GangPlanner
from reconciler.control.gangs.writing import GangWriter
from reconciler.control.handler import Handler
from reconciler.control.intake import Intake
from reconciler.control.kept_config_map import KeptConfigMap
from reconciler.control.koordinator.handler import KoordinatorHandler
from reconciler.control.koordinator.intake import DeviceIntake
from reconciler.control.koordinator.state import KoordinatorState
from reconciler.control.kueue.wake_ups import KueueWakeUps
from reconciler.control.loop import Reconciler
from reconciler.control.ownership import Ownership
from reconciler.control.planner import Planner
from reconciler.control.queueing.pending import Pending
from reconciler.control.queueing.units import Unit
from reconciler.control.reporter import Reporter
from reconciler.control.settler import Settler
from reconciler.operations.journal.entries import RECORDED_SETTINGS, Header
from reconciler.operations.journal.recording import Recorder
from reconciler.settings import Settings
from reconciler.state.koordinator.rules import Rules
from reconciler.state.koordinator.rules import Semantics as DeviceSemantics
from reconciler.state.store import Store


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
    echoes: Echoes
    sink: Sink
    """Takes the changes of every watch"""
    machines: KoordinatorState | None
    """Koordinator's devices, if they are served"""
    decoders: Mapping[str, Decode]
    """By kind, for kinds with a decoder of their own"""
    wake_ups: KueueWakeUps | None
    """What wakes the admission check, if there is one"""
    held_room: KeptConfigMap | None
    """Where held room is written down, if it is"""


class Koordinator(NamedTuple):
    """What serves pods with Koordinator's devices."""

    machines: KoordinatorState
    devices: DeviceIntake
    handler: KoordinatorHandler


def build_control(
    base: Foundation,
    found: Found,
    ours: Ownership,
    store: Store,
    recorder: Recorder | None,
    reporter: Reporter,
    pending: Pending,
    placing: Placing,
) -> Control:
    """Build the parts that decide and write. `recorder` is the journal of `store`, if there is one."""
    settings, served, withdrawals, reasons = base.settings, found.served, Withdrawals(), PauseReasons()
    intake = _intake(base, found, ours, store, reporter, withdrawals, reasons)
    echoes = Echoes(holds=intake.holds, add=intake.catch_up, shown=intake.lag.shown)
    connection = base.connection(guarded(base, reasons), watched=served)
    writer = Writer(connection.client, served, echoes=echoes, withdrawals=withdrawals, now=now)
    held_room = held_room_config_map(settings, connection.client)
    fence = _fence(base, intake, writer, ours, held_room)
    planner = Planner(intake.store, intake.roster, intake.placement, ours, intake.reclaimed, placing.in_use)
    settler = Settler(intake, writer, reporter.report)
    pod_writer = PodWriter(connection.client, served)
    koordinator = _koordinator(base, intake, pod_writer, recorder, reporter) if settings.koordinator else None
    machines = None if koordinator is None else koordinator.machines
    claims = ClaimHandler(
        intake,
        planner,
        Decider(ours, steps=settings.search_steps),
        writer,
        settler,
        clock=base.clock,
        now=now,
        report=reporter.report,
        journal=placing.journal(recorder),
    )
    gang_planner = _gang_planner(intake, planner, machines)
    gangs = _gangs(base, intake, gang_planner, ours, settler, writer, pod_writer, recorder, reporter)
    wake_ups = KueueWakeUps(intake) if settings.kueue_check else None
    handlers = _present(gangs, wake_ups, koordinator and koordinator.handler, claims)
    return Control(
        intake=intake,
        connection=connection,
        writer=writer,
        fence=fence,
        planner=planner,
        gang_planner=gang_planner,
        reconciler=Reconciler(intake, handlers, reporter, clock=base.clock, fence=fence, pending=pending),
        failures=Failures(),
        echoes=echoes,
        sink=intake.take if koordinator is None else koordinator.devices.take,
        machines=machines,
        decoders={} if koordinator is None else {"Device": read_device},
        wake_ups=wake_ups,
        held_room=held_room,
    )


def _present(*handlers: Handler[Any, Any, Any] | None) -> list[Handler[Any, Any, Any]]:
    """Those that there are, in order. Gangs come first: a pod of a gang needs nothing on its own."""
    return [one for one in handlers if one is not None]


def recording(settings: Settings, rules: Semantics, ours: Ownership) -> Recorder | None:
    """The journal, if the settings enable it. Raises Rejected if it cannot be written."""
    if settings.journal is None:
        return None
    told = settings.model_dump(mode="json", include=set(RECORDED_SETTINGS))
    header = Header(version("dra-reconciler"), rules, ours, settings.search_steps, settings=told)
    return Recorder(Path(settings.journal), header)


def _queue(settings: Settings) -> Queue[Unit]:
    return Queue(base=settings.backoff_base_seconds, cap=settings.backoff_cap_seconds, random=random)


def _intake(
    base: Foundation,
    found: Found,
    ours: Ownership,
    store: Store,
    reporter: Reporter,
    withdrawals: Withdrawals,
    reasons: PauseReasons,
) -> Intake:
    return Intake(
        store,
        _queue(base.settings),
        (resource.kind for resource in found.served),
        reporter.report,
        ours=ours,
        reasons=reasons,
        withdrawing=withdrawals,
        volumes=not base.settings.without_volumes,
    )


def _fence(
    base: Foundation, intake: Intake, writer: Writer, ours: Ownership, held_room: KeptConfigMap | None
) -> Fence:
    take_over = None if held_room is None else takeover_of(base, intake, held_room).take_over
    patience = base.settings.write_seconds
    return Fence(intake, writer, ours, clock=base.clock, patience=patience, take_over=take_over)


def _gang_planner(intake: Intake, planner: Planner, machines: KoordinatorState | None) -> GangPlanner:
    return GangPlanner(
        intake.store,
        intake.roster,
        intake.gangs,
        intake.groups,
        intake.nodes.on_demand,
        planner,
        has_koordinators_devices=None if machines is None else machines.requests_devices,
    )


def _gangs(
    base: Foundation,
    intake: Intake,
    gangs: GangPlanner,
    ours: Ownership,
    settler: Settler,
    writer: Writer,
    pod_writer: PodWriter,
    recorder: Recorder | None,
    reporter: Reporter,
) -> GangHandler:
    return GangHandler(
        intake,
        gangs,
        ours,
        settler,
        GangWriter(intake, writer, pod_writer, reporter.report),
        steps=base.settings.search_steps,
        clock=base.clock,
        report=reporter.report,
        journal=recorder.placed if recorder else None,
    )


def _koordinator(
    base: Foundation, intake: Intake, writer: PodWriter, recorder: Recorder | None, reporter: Reporter
) -> Koordinator:
    """Pods with Koordinator's devices share the queue with claims."""
    fleet = Fleet(Rules(DeviceSemantics(base.settings.koordinator_semantics)))
    report = reporter.report
    machines = recorder.machines(fleet, report) if recorder else KoordinatorState(fleet, report)
    devices = DeviceIntake(machines, intake)
    handler = KoordinatorHandler(
        machines,
        devices,
        intake,
        writer,
        clock=base.clock,
        report=report,
        journal=recorder.equipped if recorder else None,
    )
    return Koordinator(machines, devices, handler)
