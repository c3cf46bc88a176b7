"""One run: builds the parts, runs them, and stops them in order."""

import asyncio
from contextlib import AsyncExitStack

import structlog

from reconciler.aio.tasks import Stopped
from reconciler.app.build import build
from reconciler.app.parts import Parts
from reconciler.app.tasks import tasks
from reconciler.cluster.transport import Transport
from reconciler.control.decisions.decision import Report
from reconciler.operations.serving.port import StatusPort
from reconciler.settings import Settings

log = structlog.get_logger()


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
