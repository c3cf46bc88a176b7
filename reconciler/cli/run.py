"""`dra-reconciler run`: allocate the claims of a cluster, or of the embedded API server."""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import structlog

from reconciler import app
from reconciler.aio.tasks import Stopped, unless
from reconciler.cli.common.exits import exit_on_errors
from reconciler.cluster.client import Client
from reconciler.cluster.http import connect
from reconciler.cluster.target import choose_target, without_password
from reconciler.operations.logs.setup import configure, lines_in_order
from reconciler.operations.serving.port import StatusPort
from reconciler.operations.serving.server import access_for, serving
from reconciler.settings import Settings, load

log = structlog.get_logger()


def run(config: Path | None, files: tuple[str, ...], **flags: Any) -> None:
    """Carry out the command. Its options and its help are in `cli/commands/run.py`."""
    with exit_on_errors():
        settings = load({name: value for name, value in flags.items() if value not in (None, ())}, config)
    if files and not settings.embedded:
        raise click.UsageError("-f loads manifests into the embedded server: add --embedded, or remove -f")
    configure(settings.log_level, settings.log_format)
    raws: Sequence[dict[str, Any]] = ()
    if settings.embedded:
        # Late import, as in `_with_server`: on a cluster, the start needs neither the server nor its input.
        from reconciler.cli.common.server_input import read_for_server  # noqa: PLC0415

        raws = read_for_server(files)
    with exit_on_errors(), lines_in_order():
        asyncio.run(_run(settings, raws))


async def _run(settings: Settings, raws: Sequence[dict[str, Any]]) -> None:
    app.check(settings)  # before anything starts
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        if settings.embedded:
            settings = await _with_server(settings, raws, stack)
        options = {"server": settings.server, "kubeconfig": settings.kubeconfig, "context": settings.context}
        target = choose_target(**options)
        log.info("cluster", server=without_password(target.server), context=target.context)
        connection = connect(**options, insecure=settings.insecure_skip_tls_verify)
        try:
            transport = await unless(stop, stack.enter_async_context(connection))
        except Stopped:  # stopped while a plugin of the kubeconfig fetched credentials
            return
        port = StatusPort(access_for(settings, Client(transport), loop.time))
        status = await stack.enter_async_context(serving(port, settings, now=lambda: datetime.now(UTC)))
        log.info("status served", url=status, paths="/ /livez /readyz /metrics /statusz")
        await app.run(settings, transport, stop=stop, port=port)


async def _with_server(settings: Settings, raws: Sequence[dict[str, Any]], stack: AsyncExitStack) -> Settings:
    """Start the embedded server until the stack is closed, and return the settings with its address."""
    from reconciler.embedded import ApiServer, run_controllers, serve  # noqa: PLC0415

    api = ApiServer()
    api.load(raws)
    await stack.enter_async_context(run_controllers(api))
    server = await stack.enter_async_context(serve(api, port=settings.embedded_port))
    click.echo(f"embedded API server on {server}")
    click.echo(f"kubectl --server={server} get resourceclaims,pods -A")
    return settings.model_copy(update={"server": server})
