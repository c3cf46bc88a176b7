"""The tree of tasks: workers outside, and inside the jobs that feed them, which end first."""

import asyncio

import structlog

from reconciler.app.parts import Parts

log = structlog.get_logger()


async def tasks(parts: Parts) -> None:
    """Run until `stop` is set, then let writes in flight finish, for `drain_seconds` at most, and the jobs.

    Cancelled: writes in flight may or may not be applied.
    """
    settings = parts.settings
    worker = parts.shadow or parts.reconciler
    try:
        async with asyncio.timeout(None) as deadline, asyncio.TaskGroup() as working:
            for number in range(settings.writers):
                working.create_task(worker.work(), name=f"worker {number}")
            await _jobs(parts)
            parts.reconciler.stop()
            if parts.shadow is not None:
                parts.shadow.stop()
            deadline.reschedule(asyncio.get_running_loop().time() + settings.drain_seconds)
    except TimeoutError:
        log.warning("writes aborted by drain timeout", drain_seconds=settings.drain_seconds)
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
