"""`dra-reconciler apiserver`: the embedded API server alone, for trying things out with kubectl."""

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
from reconciler.cli.common.exits import failing
from reconciler.cli.common.input import read_served
from reconciler.cli.common.options import files_option
from reconciler.embedded import ApiServer, run_controllers, serve
from reconciler.embedded.access import Guard, Roles, read_tokens
from reconciler.operations.logs.setup import configure


@click.command(short_help="Run the embedded API server alone.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8001, show_default=True, help="0 takes any free port."
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Whoever reaches it may do everything, unless --token-file is given.",
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='Who may ask at all: lines of token,user,uid,"group,group".',
)
@click.option(
    "--rbac",
    type=click.Path(exists=True, readable=True),
    metavar="FILE|DIR",
    help="What they may do: roles and bindings. Group system:masters may do everything.",
)
@click.option(
    "--with-controllers",
    is_flag=True,
    help="Also make claims from templates, bind and end pods, and free claims, as a cluster does.",
)
@files_option(required=False)
def apiserver(
    port: int,
    host: str,
    token_file: Path | None,
    rbac: str | None,
    with_controllers: bool,
    files: tuple[str, ...],
) -> None:
    """Run the embedded API server alone, in memory, until SIGINT or SIGTERM.

    Nothing is kept. What -f names is there from the start. Without --token-file there is no authentication.
    """
    if rbac is not None and token_file is None:
        raise click.UsageError("--rbac needs --token-file: without tokens everybody is the same.")
    configure("info")
    raws = read_served(files)
    with failing():
        guard = None if token_file is None else _guard(token_file, rbac)
        asyncio.run(_serve(raws, host, port, with_controllers, guard))


def _guard(token_file: Path, rbac: str | None) -> Guard:
    tokens = read_tokens(token_file.read_text(), source=str(token_file))
    found = list(documents((rbac,), sys.stdin.buffer)) if rbac is not None else []
    for one in found:
        if isinstance(one, Refusal):
            raise one.problem
    return Guard(tokens, Roles.read(one.raw for one in found if not isinstance(one, Refusal)))


async def _serve(
    raws: Sequence[dict[str, Any]], host: str, port: int, with_controllers: bool, guard: Guard | None
) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
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
        click.echo(f"kubectl --server={url} get resourceslices,resourceclaims,pods -A")
        await ended.wait()
