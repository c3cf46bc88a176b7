"""`dra-reconciler apiserver`: only the embedded API server, for experiments with kubectl."""

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from reconciler.api.manifests.bundle import bundle
from reconciler.api.manifests.documents import Document, InvalidDocument, Origin, documents
from reconciler.api.migrate.special_claims import is_special
from reconciler.api.objects.core import GATE
from reconciler.api.objects.semantics import NEWEST_MINOR, Semantics
from reconciler.api.validation.kinds import Object
from reconciler.cli.convert import read_for_server
from reconciler.cli.exits import Exit, exit_on_errors
from reconciler.cli.options import files_option, strict_option
from reconciler.control.offline import decide
from reconciler.embedded import ApiServer, run_controllers, serve
from reconciler.embedded.accounts import Roles, read_tokens
from reconciler.embedded.guard import Guard
from reconciler.operations.log_setup import configure


def schedule(others: Iterable[Object], pod: Object) -> tuple[str, Object] | None:
    """The node of a pod, and its special claim with an allocation there; None if it fits nowhere.

    `others` are what it meets: devices, nodes, allocated claims and bound pods.
    """
    gated = {**pod, "spec": {**pod["spec"], "schedulingGates": [{"name": GATE}]}}
    raws = (*others, gated)
    report = decide(bundle(Document(Origin("server", at), raw) for at, raw in enumerate(raws)), Semantics())
    nodes = {plan.claim.name: plan.node for granted in report.granted for plan in granted.plans}
    made = (claim for claim in report.allocated(datetime.now(UTC)) if is_special(claim))
    return next(((nodes[claim["metadata"]["name"]], claim) for claim in made), None)


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8001,
    show_default=True,
    help="The port; 0 selects a free one.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on. Without --token-file, every client has full access.",
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='Clients: lines of token,user,uid,"group,group".',
)
@click.option(
    "--rbac",
    type=click.Path(exists=True, readable=True),
    metavar="FILE|DIR",
    help="Roles and bindings of the clients. Group system:masters has full access.",
)
@click.option(
    "--with-controllers",
    is_flag=True,
    help="Also create claims from templates, bind and finish pods, and deallocate claims.",
)
@click.option(
    "--release",
    type=click.Choice(["1.36", "1.37"]),
    default=f"1.{NEWEST_MINOR}",
    show_default=True,
    help="The release of Kubernetes whose API versions and fields are served.",
)
@click.option(
    "--history",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Changes to keep of each kind, at least: a watch or page from before them gets a 410.",
)
@files_option(required=False)
@strict_option
def apiserver(
    port: int,
    host: str,
    token_file: Path | None,
    rbac: str | None,
    with_controllers: bool,
    release: str,
    history: int,
    files: tuple[str, ...],
) -> None:
    """Run only the embedded API server, in memory, until SIGINT or SIGTERM.

    Objects are lost at the end. -f loads objects at the start. Without --token-file, clients are not
    authenticated.

    \b
    Examples:
      dra-reconciler apiserver --with-controllers -f claims/
      dra-reconciler apiserver --port 8001 -f manifests/
    """
    if rbac is not None and token_file is None:
        raise click.UsageError(
            "--rbac needs --token-file: without tokens the server cannot distinguish clients."
        )
    configure("info")
    raws = read_for_server(files)
    with exit_on_errors(Exit.USAGE):
        guard = None if token_file is None else _guard(token_file, rbac)
        api = ApiServer(guard=guard, history=history, release=int(release.partition(".")[2]))
        asyncio.run(_serve(api, raws, host, port, with_controllers))


def _guard(token_file: Path, rbac: str | None) -> Guard:
    tokens = read_tokens(token_file.read_text(), source=str(token_file))
    raws = []
    for document in documents((rbac,), sys.stdin.buffer) if rbac is not None else ():
        if isinstance(document, InvalidDocument):
            raise document.problem
        raws.append(document.raw)
    return Guard(tokens, Roles.read(raws))


async def _serve(
    api: ApiServer, raws: Sequence[dict[str, Any]], host: str, port: int, with_controllers: bool
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    api.load(raws)
    async with AsyncExitStack() as stack:
        if with_controllers:
            await stack.enter_async_context(run_controllers(api, schedule))
        url = await stack.enter_async_context(serve(api, host=host, port=port))
        loaded = ", ".join(
            f"{count} {kind}" for kind, count in sorted(Counter(r["kind"] for r in raws).items())
        )
        if loaded:
            click.echo(f"loaded: {loaded}")
        click.echo(f"serving on {url}")
        click.echo(f"kubectl --server={url} get resourceclaims,pods -A")
        await stop.wait()
