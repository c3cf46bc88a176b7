"""What a run consists of."""

import asyncio

from msgspec import Struct

from reconciler.app.job import Job
from reconciler.app.leadership import Leadership
from reconciler.control.loop import Reconciler
from reconciler.control.shadow import Shadow
from reconciler.operations.journal.recording import Recorder
from reconciler.operations.metrics.tracing import NoTraces
from reconciler.operations.telemetry.task_health import TaskHealth
from reconciler.settings import Settings


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
    traces: NoTraces
