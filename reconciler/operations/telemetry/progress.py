"""Signals about the work: progress, queue, pending claims and failures."""

import asyncio
from collections.abc import Callable

from reconciler.aio.tasks import Heartbeat
from reconciler.control.failures import Failures
from reconciler.control.intake import Intake
from reconciler.control.loop import Reconciler
from reconciler.control.waiting import Pending
from reconciler.operations.metrics import catalogue as of
from reconciler.operations.metrics.metered import Metered
from reconciler.operations.metrics.scraping import by, single
from reconciler.operations.serving.health import Progress
from reconciler.operations.telemetry.signals import Signals
from reconciler.operations.telemetry.task_health import TaskHealth
from reconciler.settings import Settings
from reconciler.state.nominations import NomineeKind

WRITES_MISSED = 2
"""Consecutive write timeouts that do not count as stuck"""


def work_signals(reconciler: Reconciler, failures: Failures, pending: Pending, intake: Intake) -> Signals:
    """Reconciles, failures, queue and pending claims."""
    queue = intake.queue
    return Signals(
        readings=[
            by(of.PENDING, pending.by_reason),
            by(of.HELD_ROOM, lambda: _held_room(intake)),
            single(of.TURNS, lambda: reconciler.reconciles),
            single(of.FAILURES, lambda: reconciler.failures + failures.count),
            by(of.QUEUE, lambda: {"due": queue.due, "backing_off": len(queue) - queue.due}),
            single(of.QUEUE_AGE, lambda: queue.oldest_age),
            single(of.RETRIES, lambda: queue.retries),
        ]
    )


def _held_room(intake: Intake) -> dict[str, float]:
    """What room is held for -> devices."""
    found = dict.fromkeys(map(str, NomineeKind), 0.0)
    for one in intake.store.nominations:
        found[one.nominee.kind] += len(one.devices)
    return found


def liveness_signals(
    settings: Settings,
    intake: Intake,
    reconciler: Reconciler,
    *,
    metered: Metered,
    heart: Heartbeat,
    tasks: TaskHealth,
    stop: asyncio.Event,
    leads: Callable[[], bool],
    clock: Callable[[], float],
) -> Signals:
    """The checks of `/livez`. `leads` tells whether this process is the leader; `clock` is the loop's."""
    stalled = max(settings.stalled_seconds, WRITES_MISSED * settings.write_seconds)

    def waiting() -> float:
        """Age of the oldest due work that this process may do, in seconds."""
        ours = intake.listed.is_set() and leads() and not stop.is_set()
        return intake.queue.oldest_age if ours else 0.0

    def heartless() -> str:
        if heart.last is None or (since := clock() - heart.last) <= stalled:
            return ""
        return f"no heartbeat for {since:.0f} s"

    progress = Progress(lambda: reconciler.reconciles + metered.answers, waiting, stalled, clock)
    return Signals(live={"workers": progress.problem, "loop": heartless, "tasks": tasks.problem})
