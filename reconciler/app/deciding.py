"""The parts that decide and write: the picture, the loop over it, and the fence before its first turn."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from random import random
from typing import Any, NamedTuple

from reconciler.aio.queue import Queue
from reconciler.app.announcing import both
from reconciler.app.coexistence import guarded
from reconciler.app.discovery import Found
from reconciler.app.foundation import Foundation, Line
from reconciler.cluster.cursor import Decode
from reconciler.cluster.echoes import Echoes
from reconciler.cluster.podwriter import PodWriter
from reconciler.cluster.watch import Sink
from reconciler.cluster.withdrawals import Withdrawals
from reconciler.cluster.writer import Writer
from reconciler.inventory.store import Store
from reconciler.journal.entries import DECIDING, Header
from reconciler.journal.recording import Recorder
from reconciler.koordinator.fleet import Fleet
from reconciler.koordinator.reading import read_device
from reconciler.koordinator.rules import Rules
from reconciler.koordinator.rules import Semantics as DeviceSemantics
from reconciler.objects.semantics import Semantics
from reconciler.reconcile.claims import ClaimHandler
from reconciler.reconcile.deciding import Decider
from reconciler.reconcile.decisions import Tell
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
from reconciler.reconcile.pending import Pending
from reconciler.reconcile.steps import Planner
from reconciler.reconcile.units import Unit
from reconciler.settings import Settings


@dataclass(frozen=True, slots=True)
class Deciding:
    """The parts that decide and write."""

    intake: Intake
    line: Line
    writer: Writer
    fence: Fence
    planner: Planner
    reconciler: Reconciler
    echoes: Echoes
    sink: Sink
    """Takes the changes of every watch"""
    machines: Picture | None
    """Koordinator's devices, where they are served"""
    decoders: Mapping[str, Decode]
    """By kind, for kinds that are not read as usual"""


@dataclass(frozen=True, slots=True)
class Voice:
    """How decisions are made known."""

    names: Numbering
    announce: Tell
    pending: Pending
    """Why claims are pending, as it was announced"""


class Koordinator(NamedTuple):
    """What serves pods with Koordinator's devices."""

    machines: Picture
    devices: DeviceIntake
    handler: KoordinatorHandler


def deciding(
    base: Foundation, found: Found, ours: Ownership, store: Store, recorder: Recorder | None, voice: Voice
) -> Deciding:
    """Build them. `recorder` writes a journal of `store`, where one is wanted."""
    settings, served, withdrawals, reasons = base.settings, found.served, Withdrawals(), PauseReasons()
    queue: Queue[Unit] = Queue(
        base=settings.backoff_base_seconds, cap=settings.backoff_cap_seconds, random=random
    )
    kinds = (resource.kind for resource in served)
    intake = Intake(store, queue, kinds, voice.announce, ours=ours, reasons=reasons, withdrawing=withdrawals)
    echoes = Echoes(holds=intake.holds, tell=intake.catch_up)
    line = base.line(guarded(base, reasons), watched=served)
    writer = Writer(
        line.client, served, echoes=echoes, withdrawals=withdrawals, now=lambda: datetime.now(UTC)
    )
    fence = Fence(intake, writer, ours, clock=base.clock, patience=settings.write_seconds)
    planner = Planner(intake.store, intake.roster, intake.nodes, ours, intake.yielded)
    handlers: list[Handler[Any, Any, Any]] = [
        ClaimHandler(
            intake,
            planner,
            Decider(ours, steps=settings.search_steps),
            writer,
            clock=base.clock,
            tell=voice.announce,
            journal=recorder.decided if recorder else None,
        )
    ]
    koordinator = None
    if settings.koordinator:
        koordinator = _koordinator(base, intake, PodWriter(line.client, served), recorder, voice)
        handlers.insert(0, koordinator.handler)
    return Deciding(
        intake=intake,
        line=line,
        writer=writer,
        fence=fence,
        planner=planner,
        reconciler=_reconciler(base, intake, handlers, fence, voice),
        echoes=echoes,
        sink=intake.take if koordinator is None else koordinator.devices.take,
        machines=None if koordinator is None else koordinator.machines,
        decoders={} if koordinator is None else {"Device": read_device},
    )


def recording(settings: Settings, rules: Semantics, ours: Ownership) -> Recorder | None:
    """The journal that the settings want. Raises Rejected when it cannot be written."""
    if settings.journal is None:
        return None
    told = settings.model_dump(mode="json", include=set(DECIDING))
    header = Header(version("dra-reconciler"), rules, ours, settings.search_steps, settings=told)
    return Recorder(Path(settings.journal), header)


def _reconciler(
    base: Foundation, intake: Intake, handlers: list[Handler[Any, Any, Any]], fence: Fence, voice: Voice
) -> Reconciler:
    return Reconciler(
        intake,
        handlers,
        clock=base.clock,
        tell=voice.announce,
        names=voice.names,
        answered=both(base.telemetry.meters.answered, base.traces.answered),
        fence=fence,
        pending=voice.pending,
        around=base.traces.turn,
    )


def _koordinator(
    base: Foundation, intake: Intake, writer: PodWriter, recorder: Recorder | None, voice: Voice
) -> Koordinator:
    """Pods with Koordinator's devices are served out of the same queue as claims."""
    fleet = Fleet(Rules(DeviceSemantics(base.settings.koordinator_semantics)))
    machines = recorder.machines(fleet, voice.announce) if recorder else Picture(fleet, voice.announce)
    devices = DeviceIntake(machines, intake)
    handler = KoordinatorHandler(
        machines,
        devices,
        intake,
        writer,
        clock=base.clock,
        tell=voice.announce,
        journal=recorder.equipped if recorder else None,
    )
    return Koordinator(machines, devices, handler)
