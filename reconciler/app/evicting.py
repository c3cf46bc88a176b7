"""Parts that evict pods: to make room for pending ones, and to move them so that more fits."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from random import random
from typing import NamedTuple

import structlog

from reconciler.aio.tasks import forever
from reconciler.app.control import Control
from reconciler.app.foundation import Foundation, now
from reconciler.app.from_settings import Job, goals
from reconciler.app.moving import MovePlanner, RoomPlanner
from reconciler.cluster.client import Client
from reconciler.cluster.discovery import Right, missing_rights
from reconciler.cluster.kinds import BUDGET
from reconciler.cluster.pod_writer import EVICTION_REQUEST, EvictionRequests, Evictions
from reconciler.cluster.watch import follow
from reconciler.control.decisions.declaration import Report
from reconciler.control.held_room import HeldRoomKeeper
from reconciler.control.ownership import Ownership
from reconciler.control.relocation.evictor import Evictor, KnownBudgets, Rates, Turns
from reconciler.control.relocation.moves import Allowed, MovesAdvice
from reconciler.control.relocation.preemptor import Preemptor
from reconciler.control.relocation.rebalancer import MovesTerms, Rebalancer
from reconciler.control.relocation.relocator import Candidates, Means, Terms
from reconciler.control.waiting import Pending
from reconciler.errors import Gone, Rejected, Relist, Retry
from reconciler.operations.telemetry import Signals, moves_signals, room_signals
from reconciler.settings import Settings

log = structlog.get_logger()

TO_PLAN = (Right("list", BUDGET.plural, BUDGET.group), Right("watch", BUDGET.plural, BUDGET.group))
TO_EVICT = (Right("create", "pods/eviction"),)
TO_ASK = tuple(
    Right(verb, EVICTION_REQUEST.plural, EVICTION_REQUEST.group)
    for verb in ("create", "get", "list", "delete")
)
TO_HINT = (Right("patch", "pods/status"),)
ASK_AGAIN = 5.0
"""Seconds until rights are asked for again after a failure"""
ASK_FOR_RIGHTS = 300.0
"""Seconds until a right that was missing is asked for again"""


async def check_rights(settings: Settings, client: Client) -> None:
    """Raise Rejected if the settings need rights that this account does not have.

    Advice which pods to move needs none: it is on by default, and without them it is made without budgets.
    """
    if settings.mode == "shadow":
        return
    room: list[Right] = [] if settings.preemption == "off" else [*TO_PLAN]
    room += [*TO_EVICT, *TO_HINT] if settings.preemption == "evict" else []
    moves: list[Right] = [*TO_PLAN, *TO_EVICT] if settings.rebalance == "evict" else []
    seconds = settings.eviction_request_seconds
    asks = TO_ASK if seconds and "evict" in (settings.preemption, settings.rebalance) else ()
    for name, value, needed, component, instead in (
        ("preemption", settings.preemption, room, "rebalance", "off"),
        ("rebalance", settings.rebalance, moves, "rebalance", "advise"),
        ("eviction_request_seconds", f"{seconds:g}", asks, "eviction-requests", "0"),
    ):
        if lacking := await missing_rights(client, needed):
            raise Rejected(
                f"setting {name}: {value} needs rights that this account does not have: "
                f"{', '.join(map(str, lacking))}. Add deploy/components/{component}, or set it in the values "
                f"of the chart; or set {name} to {instead}"
            )


class Evicting(NamedTuple):
    """What runs, and what operators see of it."""

    jobs: list[Job]
    signals: list[Signals]
    moves: Callable[[], Sequence[MovesAdvice]] = tuple
    """The standing advice which pods to move"""


def evicting(
    base: Foundation,
    core: Control,
    ours: Ownership,
    pending: Pending,
    report: Report,
    leads: Callable[[], bool],
    keeper: HeldRoomKeeper | None = None,
) -> Evicting:
    """The jobs and signals; none if the settings turn all of it off. `leads` says whether this process may
    write; `keeper` writes down what is held.
    """
    settings, client = base.settings, core.connection.client
    jobs: list[Job] = []
    signals: list[Signals] = []
    if settings.mode == "shadow" or settings.preemption == settings.rebalance == "off":
        return Evicting(jobs, signals)
    budgets, evictions = KnownBudgets(), Evictions(client)
    rates = Rates(settings.evictions_per_minute, 10 * settings.evictions_per_minute)
    means = Means(
        core.intake,
        budgets,
        Evictor(
            evictions,
            rates,
            core.intake.pause,
            clock=base.clock,
            report=report,
            requests=EvictionRequests(client) if settings.eviction_request_seconds else None,
            patience=settings.eviction_request_seconds,
        ),
        Turns(),
        leads=lambda: leads() and core.fence.up.is_set(),
        clock=base.clock,
        now=now,
        report=report,
        written=None if keeper is None else keeper.written,
    )
    needed = settings.preemption != "off" or settings.rebalance == "evict"
    jobs.append(Job(f"watch {BUDGET.plural}", partial(_watch, client, budgets, needed=needed)))
    if settings.preemption != "off":
        budgets.asked.set()
        candidates = Candidates(
            core.intake, pending, core.planner, core.gang_planner, settings.preempting_classes
        )
        terms = Terms(settings.preemption == "evict", *_times(settings))
        planner = RoomPlanner(ours, settings.evictions_per_minute)
        preemptor = Preemptor(means, candidates, evictions, planner.plan, terms)
        jobs.append(Job("make room", preemptor.run))
        signals.append(room_signals(preemptor.standing))
    if settings.rebalance == "off":
        return Evicting(jobs, signals)
    rebalancer = _rebalancer(settings, means, ours)
    jobs.append(Job("rebalance", rebalancer.run))
    signals.append(moves_signals(rebalancer.standing))
    return Evicting(jobs, signals, lambda: rebalancer.standing.lines)


def _rebalancer(settings: Settings, means: Means, ours: Ownership) -> Rebalancer:
    acts, fixed = settings.rebalance == "evict", settings.fixed
    planner = MovePlanner(
        ours,
        goals(settings),
        Allowed(settings.rebalance_namespaces, fixed.rebalance_max_priority) if acts else None,
        most_moves=fixed.rebalance_most_moves,
        moves_per_gain=fixed.rebalance_moves_per_gain,
    )
    terms = MovesTerms(acts, *_times(settings), calm_seconds=fixed.rebalance_calm_seconds)
    return Rebalancer(means, planner.plan, planner.problem, terms)


def _times(settings: Settings) -> tuple[float, float]:
    """How long room is held, and how long a pod that has started is left alone."""
    return settings.fixed.nomination_seconds, settings.fixed.eviction_cooldown_seconds


async def _watch(client: Client, budgets: KnownBudgets, *, needed: bool) -> None:
    """Follow the budgets from the first plan on. Advice alone goes without while they must not be read."""
    await budgets.asked.wait()
    while not needed and (why := await _denied(client)):
        if not budgets.unknown:
            log.info("budgets not considered", error=why)
            budgets.go_without()
        await asyncio.sleep(ASK_FOR_RIGHTS)
    budgets.go_with()
    await forever(BUDGET.plural, follow(client, BUDGET, sink=budgets.take, random=random))


async def _denied(client: Client) -> str:
    """Why budgets must not be read; empty if they may be. A server that is away is waited for.

    No answer of the server is an error here: advice must never stop who allocates.
    """
    while True:
        try:
            lacking = await missing_rights(client, TO_PLAN)
        except Retry as exc:
            await asyncio.sleep(max(exc.after, ASK_AGAIN))
        except (Rejected, Gone, Relist) as exc:
            return str(exc)
        else:
            told = (
                f"no right to {', '.join(map(str, lacking))}; to grant it, see Rights in docs/rebalancing.md"
            )
            return told if lacking else ""
