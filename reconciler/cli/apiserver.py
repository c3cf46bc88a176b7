"""`dra-reconciler apiserver`: only the embedded API server, for experiments with kubectl."""

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import click

from reconciler.api.manifests.documents import Refusal, documents
from reconciler.cli.common.exits import exit_on_errors
from reconciler.cli.common.server_input import read_for_server
from reconciler.embedded import ApiServer, run_controllers, serve
from reconciler.embedded.accounts import Roles, read_tokens
from reconciler.embedded.guard import Guard
from reconciler.operations.logs.setup import configure, lines_in_order


def apiserver(
    port: int,
    host: str,
    token_file: Path | None,
    rbac: str | None,
    with_controllers: bool,
    files: tuple[str, ...],
) -> None:
    """Carry out the command. Its options and its help are in `cli/commands/apiserver.py`."""
    if rbac is not None and token_file is None:
        raise click.UsageError(
            "--rbac needs --token-file: without tokens the server cannot distinguish clients."
        )
    configure("info")
    raws = read_for_server(files)
    with exit_on_errors(), lines_in_order():
        guard = None if token_file is None else _guard(token_file, rbac)
        asyncio.run(_serve(raws, host, port, with_controllers, guard))


def _guard(token_file: Path, rbac: str | None) -> Guard:
    tokens = read_tokens(token_file.read_text(), source=str(token_file))
    raws = []
    for document in documents((rbac,), sys.stdin.buffer) if rbac is not None else ():
        if isinstance(document, Refusal):
            raise document.problem
        raws.append(document.raw)
    return Guard(tokens, Roles.read(raws))


async def _serve(
    raws: Sequence[dict[str, Any]], host: str, port: int, with_controllers: bool, guard: Guard | None
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    api = ApiServer(guard=guard)
    api.load(raws)
    async with AsyncExitStack() as stack:
        if with_controllers:
            await stack.enter_async_context(run_controllers(api))
        url = await stack.enter_async_context(serve(api, host=host, port=port))
        loaded = ", ".join(
            f"{count} {kind}" for kind, count in sorted(Counter(r["kind"] for r in raws).items())
        )
        if loaded:
            click.echo(f"loaded: {loaded}")
        click.echo(f"serving on {url}")
        click.echo(f"kubectl --server={url} get resourceclaims,pods -A")
        await stop.wait()
