"""Runs one process from start to end: the tree of its tasks, and how they end."""

import asyncio
from contextlib import AsyncExitStack

import structlog

from reconciler.aio.tasks import Stopped
from reconciler.app.build import Parts, build
from reconciler.cluster.transport import Transport
from reconciler.control.decisions.declaration import Report
from reconciler.operations.serving.port import StatusPort
from reconciler.settings import Settings

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
