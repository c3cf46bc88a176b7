"""`dra-reconciler run`: allocate the claims of a cluster, or of the embedded API server."""

import asyncio
import signal
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click
import structlog
from pydantic.fields import FieldInfo

from reconciler import app
from reconciler.aio.tasks import Stopped, unless
from reconciler.cli import rule_options
from reconciler.cli.convert import read_for_server
from reconciler.cli.exits import Exit, NoAnswer, errors_as, exit_on_errors
from reconciler.cli.help import F, advanced_option, all_of, first_sentence
from reconciler.cli.options import Duration, advanced_strict_option, connection_options, files_option
from reconciler.cluster.client import Client
from reconciler.cluster.http import connect
from reconciler.cluster.target import choose_target, without_password
from reconciler.operations.log_setup import configure
from reconciler.operations.serving.port import StatusPort
from reconciler.operations.serving.server import access_for, serving
from reconciler.settings import REMOVED, Flag, Settings, flag_of, load

log = structlog.get_logger()


def settings_options(func: F) -> F:
    """A flag for each setting that has one. Without a default: what is not given stays as it is."""
    for name, field in reversed(Settings.model_fields.items()):
        flag = next((one for one in field.metadata if isinstance(one, Flag)), None)
        if flag is not None:
            option = advanced_option if flag.advanced else click.option
            func = option(flag_of(name), name, **_option_of(field, flag))(func)
    return _REMOVED(func)


def _removed(_context: click.Context, option: click.Parameter, value: str | None) -> None:
    """Say what to do without a flag of 0.3.0."""
    if value is not None:
        raise click.UsageError(f"{option.opts[0]} was removed in 0.4.0: {REMOVED[str(option.name)]}.")


_FLAGS = ("eviction_dry_run", "insecure_skip_tls_verify", "log_format", "no_earlier_leader", "traces")
_REMOVED = all_of(
    *(
        click.option(
            f"--{name.replace('_', '-')}",
            name,
            is_flag=False,
            flag_value="",
            expose_value=False,
            callback=_removed,
            hidden=True,
        )
        for name in (*_FLAGS, "policy_seed")
    )
)


def _option_of(field: FieldInfo, flag: Flag) -> dict[str, Any]:
    """How click takes a setting: its type, and the first sentence of its text with the default."""
    told = flag.help or first_sentence(field.description or "")
    if field.annotation is bool:
        return {"is_flag": True, "flag_value": not field.default, "default": None, "help": told}
    shown = f"  [default: {field.default}]" if field.default else ""
    option: dict[str, Any] = {"help": told + shown}
    if get_origin(field.annotation) is Literal:
        return {**option, "type": click.Choice(get_args(field.annotation))}
    if field.annotation is int:
        return {**option, "type": int}
    if field.annotation is float:
        return {**option, "type": Duration(), "metavar": "DURATION"}
    if flag.metavar == "DIR":
        option["type"] = click.Path(file_okay=False)
    return {**option, "metavar": flag.metavar, "multiple": get_origin(field.annotation) is frozenset}


@click.command()
@connection_options(insecure=False)
@settings_options
@rule_options.release_option("semantics")
@rule_options.group_mode_option
@rule_options.exclusion_scope_option
@rule_options.koordinator_semantics_option()
@rule_options.policy_option
@rule_options.preferences_option
@rule_options.demand_option
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Settings as YAML.")
@files_option(required=False)
@advanced_strict_option
@advanced_option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="Port of the embedded server.  [default: a free one, which is printed]",
)
def run(config: Path | None, files: tuple[str, ...], port: int, **flags: Any) -> None:
    """Allocate devices to claims until SIGINT or SIGTERM; then finish the writes in progress.

    Serves claims with the label dra-reconciler.io/managed: "true" and all claims of pods with the
    scheduling gate dra-reconciler.io/allocation. On a live cluster, name with --own-driver or
    --own-class the devices that no other allocator allocates; only these are ever allocated.

    Every setting can also come from the environment, as DRA_RECONCILER_OWN_DRIVERS=a,b, or from
    --config. Flags override the environment; the environment overrides the file. -f loads
    manifests into the embedded server.

    \b
    Examples:
      dra-reconciler run --own-driver gpu.example.com
      dra-reconciler run --embedded -f manifests/
    """
    with exit_on_errors(Exit.USAGE):
        settings = load({name: value for name, value in flags.items() if value not in (None, ())}, config)
    if files and not settings.embedded:
        raise click.UsageError("-f loads manifests into the embedded server: add --embedded, or remove -f")
    configure(settings.log_level)
    raws: Sequence[dict[str, Any]] = ()
    if settings.embedded:
        raws = read_for_server(files)
    with exit_on_errors(Exit.USAGE):
        app.check(settings)  # before anything starts
    with exit_on_errors(Exit.UNREACHABLE):
        asyncio.run(reconcile(settings, raws, port))


async def reconcile(
    settings: Settings,
    raws: Sequence[dict[str, Any]],
    server_port: int = 0,
    on_status: Callable[[str, StatusPort], object] = lambda _url, _port: None,
) -> None:
    """Reconcile until a signal. `raws` and `server_port` are for the embedded server; `on_status` gets the
    status port and its URL.
    """
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        if settings.embedded:
            with errors_as(NoAnswer):
                settings = await _with_server(settings, raws, server_port, stack)
        options: dict[str, Any] = settings.model_dump(include={"server", "kubeconfig", "context"})
        target = choose_target(**options)
        log.info("cluster", server=without_password(target.server), context=target.context)
        connection = connect(**options)
        try:
            transport = await unless(stop, stack.enter_async_context(connection))
        except Stopped:  # stopped while a plugin of the kubeconfig fetched credentials
            return
        with errors_as(NoAnswer):
            port = StatusPort(access_for(settings, Client(transport), asyncio.get_running_loop().time))
            status = await stack.enter_async_context(serving(port, settings, now=lambda: datetime.now(UTC)))
        log.info("status served", url=status, paths="/ /livez /readyz /metrics /statusz")
        on_status(status, port)
        await app.run(settings, transport, stop=stop, port=port)


async def _with_server(
    settings: Settings, raws: Sequence[dict[str, Any]], port: int, stack: AsyncExitStack
) -> Settings:
    """Start the embedded server until the stack is closed, and return the settings with its address."""
    from reconciler.cli.apiserver import schedule  # noqa: PLC0415
    from reconciler.embedded import ApiServer, run_controllers, serve  # noqa: PLC0415

    api = ApiServer()
    api.load(raws)
    await stack.enter_async_context(run_controllers(api, schedule))
    server = await stack.enter_async_context(serve(api, port=port))
    click.echo(f"embedded API server on {server}")
    click.echo(f"kubectl --server={server} get resourceclaims,pods -A")
    return settings.model_copy(update={"server": server})
