"""What a run consists of."""

import asyncio
from dataclasses import dataclass

from reconciler.app.job import Job
from reconciler.app.leadership import Leadership
from reconciler.control.loop import Reconciler
from reconciler.control.shadow import Shadow
from reconciler.operations.journal.recording import Recorder
from reconciler.operations.metrics.tracing import NoTraces
from reconciler.operations.telemetry.task_health import TaskHealth
from reconciler.settings import Settings


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts that were built and do not run yet. Nothing is added to them later."""

    settings: Settings
    stop: asyncio.Event
    """Set when the process is to end"""
    kinds: tuple[str, ...]
    """That are watched"""
    reconciler: Reconciler
    shadow: Shadow | None
    """Takes the turns in place of the reconciler in shadow mode"""
    leadership: Leadership
    jobs: tuple[Job, ...]
    """Run from the start until `stop` is set"""
    task_health: TaskHealth
    """Told of every job that ends"""
    recorder: Recorder | None
    traces: NoTraces
