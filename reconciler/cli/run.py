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
from reconciler.cli.exits import exit_on_errors
from reconciler.cli.options import (
    connection_options,
    exclusion_scope_option,
    files_option,
    group_mode_option,
    koordinator_semantics_option,
    release_option,
)
from reconciler.cli.policy_options import demand_option, policy_option, policy_seed_option, preferences_option
from reconciler.cluster.client import Client
from reconciler.cluster.http import connect
from reconciler.cluster.target import choose_target, without_password
from reconciler.operations.logs.setup import configure, lines_in_order
from reconciler.operations.serving.port import StatusPort
from reconciler.operations.serving.server import access_for, serving
from reconciler.settings import Settings, load

log = structlog.get_logger()


@click.command()
@connection_options(default=None)
@click.option(
    "--embedded", is_flag=True, default=None, help="Start an API server with controllers in this process."
)
@click.option("--port", "embedded_port", type=int, help="Port of the embedded server.  [default: a free one]")
@click.option(
    "--all-claims", is_flag=True, default=None, help="Allocate all claims, with or without the label."
)
@click.option(
    "--mode",
    type=click.Choice(["allocate", "shadow"]),
    help="shadow: compare with the scheduler and write nothing.",
)
@click.option("--pause", is_flag=True, default=None, help="Decide, but write nothing.")
@click.option("--pause-config-map", metavar="NAMESPACE/NAME", help="A ConfigMap that can pause all writes.")
@click.option(
    "--own-driver",
    "own_drivers",
    multiple=True,
    metavar="NAME",
    help="A driver whose devices no other allocator allocates.",
)
@click.option(
    "--own-class",
    "own_classes",
    multiple=True,
    metavar="NAME",
    help="A device class whose devices no other allocator allocates.",
)
@click.option(
    "--leader-elect",
    is_flag=True,
    default=None,
    help="Write only while holding a Lease; other replicas are standby.",
)
@click.option(
    "--no-earlier-leader",
    is_flag=True,
    default=None,
    help="If there is no Lease at the start, lead at once.",
)
@click.option("--lease-namespace", metavar="NAME", help="Namespace of the Lease.  [default: kube-system]")
@click.option(
    "--shard", metavar="driver=NAME,pool-prefix=TEXT", help="The part of the fleet that this replica owns."
)
@release_option("semantics")
@click.option("--feature-gates", metavar="A=BOOL,...", help="Feature gates to enable or disable.")
@group_mode_option
@exclusion_scope_option
@click.option(
    "--koordinator",
    is_flag=True,
    default=None,
    help="Also serve pods that request Koordinator's devices.",
)
@koordinator_semantics_option()
@policy_option
@preferences_option
@policy_seed_option
@demand_option
@click.option(
    "--without-volumes",
    is_flag=True,
    default=None,
    help="Ignore the volumes of pods; read no storage objects.",
)
@click.option(
    "--make-templates",
    is_flag=True,
    default=None,
    help="Make the templates that rewritten pods name; see docs/from-device-plugins.md.",
)
@click.option(
    "--preemption",
    type=click.Choice(["off", "advise", "evict"]),
    help="Whether pods of lower priority make room for pending ones.  [default: off]",
)
@click.option(
    "--preempting-class",
    "preempting_classes",
    multiple=True,
    metavar="NAME",
    help="A PriorityClass whose pods may have others evicted.",
)
@click.option(
    "--rebalance",
    type=click.Choice(["off", "advise", "evict"]),
    help="Whether pods are moved so that more fits.  [default: advise]",
)
@click.option("--rebalance-goals", metavar="GOAL,...", help="What is to fit: 90%, NAME=90%, NAME=N.")
@click.option(
    "--eviction-dry-run",
    is_flag=True,
    default=None,
    help="With evict: record the plans and evict nothing.",
)
@click.option(
    "--steps",
    "search_steps",
    type=int,
    help="Devices to try per decision and node before giving up.  [default: 10000]",
)
@click.option(
    "--status-address", metavar="ADDRESS", help="Address of health and metrics.  [default: 127.0.0.1]"
)
@click.option("--kueue-check", metavar="NAME", help="Answer this AdmissionCheck of Kueue.  [default: none]")
@click.option(
    "--provisioning-requests",
    metavar="CLASS",
    help="Request nodes for pods that no present node can serve.  [default: never]",
)
@click.option("--status-port", type=int, help="Port of health and metrics.  [default: a free one]")
@click.option("--no-events", "events", is_flag=True, flag_value=False, default=None, help="Write no Events.")
@click.option(
    "--journal",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Write a journal for `replay` to this directory.",
)
@click.option("--traces", is_flag=True, default=None, help="Send OpenTelemetry traces over OTLP.")
@click.option("--log-format", type=click.Choice(["auto", "json", "text"]), help="[default: auto]")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="[default: info]")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Settings as YAML.")
@files_option(required=False)
def run(config: Path | None, files: tuple[str, ...], **flags: Any) -> None:
    """Allocate devices to claims until SIGINT or SIGTERM; then finish the writes in progress.

    Serves claims with the label dra-reconciler.io/managed: "true" and all claims of pods with the
    scheduling gate dra-reconciler.io/allocation. On a live cluster, name with --own-driver or
    --own-class the devices that no other allocator allocates; only these are ever allocated.

    With --koordinator, gated pods that request Koordinator's devices get them from its Device
    objects, recorded in their annotation scheduling.koordinator.sh/device-allocated.

    Every setting can also come from the environment, as DRA_RECONCILER_OWN_DRIVERS=a,b, or from
    --config. Flags override the environment; the environment overrides the file. -f loads
    manifests into the embedded server.
    """
    with exit_on_errors():
        settings = load({name: value for name, value in flags.items() if value not in (None, ())}, config)
    if files and not settings.embedded:
        raise click.UsageError("-f loads manifests into the embedded server: add --embedded, or remove -f")
    configure(settings.log_level, settings.log_format)
    raws: Sequence[dict[str, Any]] = ()
    if settings.embedded:
        # Late import, as in `_with_server`: on a cluster, the start needs neither the server nor its input.
        from reconciler.cli.convert import read_for_server  # noqa: PLC0415

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
