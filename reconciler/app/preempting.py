"""Parts that make room for pending pods by evicting others. Off by default."""

from collections.abc import Callable
from functools import partial
from random import random
from typing import NamedTuple

from reconciler.aio.tasks import forever
from reconciler.app.control import Control
from reconciler.app.foundation import Foundation, now
from reconciler.app.job import Job
from reconciler.app.making_room import RoomPlanner
from reconciler.cluster.client import Client
from reconciler.cluster.evictions import Evictions
from reconciler.cluster.kinds import BUDGET
from reconciler.cluster.rights import Right, missing
from reconciler.cluster.watch import follow
from reconciler.control.decisions.decision import Report
from reconciler.control.evicting.budgets import KnownBudgets
from reconciler.control.evicting.evictor import Evictor
from reconciler.control.evicting.rates import Rates
from reconciler.control.evicting.turns import Turns
from reconciler.control.held_room.keeper import HeldRoomKeeper
from reconciler.control.making_room.candidates import Candidates
from reconciler.control.making_room.preemptor import Preemptor, Terms
from reconciler.control.ownership import Ownership
from reconciler.control.queueing.pending import Pending
from reconciler.errors import Rejected
from reconciler.operations.journal.recording import Recorder
from reconciler.operations.telemetry.room import room_signals
from reconciler.operations.telemetry.signals import Signals
from reconciler.settings import Settings

TO_PLAN = (Right("list", BUDGET.plural, BUDGET.group), Right("watch", BUDGET.plural, BUDGET.group))
TO_EVICT = (Right("create", "pods/eviction"), Right("patch", "pods/status"))


async def check_rights(settings: Settings, client: Client) -> None:
    """Raise Rejected if the settings need rights that this account does not have."""
    needed = () if plans_nothing(settings) else TO_PLAN if not evicts(settings) else (*TO_PLAN, *TO_EVICT)
    lacking = await missing(client, needed)
    if lacking:
        raise Rejected(
            f"setting preemption: {settings.preemption} needs rights that this account does not have: "
            f"{', '.join(map(str, lacking))}. Add deploy/components/rebalance, or set the value preemption "
            "of the chart; or set preemption to off"
        )


def plans_nothing(settings: Settings) -> bool:
    """Whether nobody is ever to leave for anybody."""
    return settings.preemption == "off" or settings.mode == "shadow"


def evicts(settings: Settings) -> bool:
    """Whether pods are evicted."""
    return settings.preemption == "evict" and not settings.eviction_dry_run


class Preempting(NamedTuple):
    """What runs, and what operators see of it."""

    jobs: list[Job]
    signals: list[Signals]


def preempting(
    base: Foundation,
    core: Control,
    ours: Ownership,
    pending: Pending,
    recorder: Recorder | None,
    report: Report,
    leads: Callable[[], bool],
    keeper: HeldRoomKeeper | None = None,
) -> Preempting:
    """The jobs and signals; none if the settings turn it off. `leads` says whether this process may write;
    `keeper` writes down what is held.
    """
    settings, budgets, client = base.settings, KnownBudgets(), core.connection.client
    if plans_nothing(settings):
        return Preempting([], [])
    evictions, turns = Evictions(client), Turns()
    rates = Rates(settings.evictions_per_minute, settings.evictions_per_hour)
    evictor = Evictor(evictions, rates, core.intake.pause, clock=base.clock, report=report)
    preemptor = Preemptor(
        core.intake,
        Candidates(core.intake, pending, core.planner, core.gang_planner, settings.preempting_classes),
        budgets,
        evictor,
        turns,
        evictions,
        RoomPlanner(ours).plan,
        Terms(
            settings.preemption == "evict",
            settings.eviction_dry_run,
            settings.nomination_seconds,
            settings.eviction_cooldown_seconds,
        ),
        leads=lambda: leads() and core.fence.up.is_set(),
        clock=base.clock,
        now=now,
        report=report,
        journal=None if recorder is None else recorder.planned,
        written=None if keeper is None else keeper.written,
    )
    jobs = [
        Job(f"watch {BUDGET.plural}", partial(_watch, client, budgets)),
        Job("make room", preemptor.run),
    ]
    return Preempting(jobs, [room_signals(preemptor.standing)])


async def _watch(client: Client, budgets: KnownBudgets) -> None:
    await forever(BUDGET.plural, follow(client, BUDGET, sink=budgets.take, random=random))
