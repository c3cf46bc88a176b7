"""Options that are not given come from a controller's settings: a file, or what its Deployment says.

So a command decides as the controller does. A Deployment is read as deploy/base and the chart write it: flags
in `args`, `DRA_RECONCILER_` variables in `env`, or in ConfigMaps that `env` or `envFrom` name.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reconciler.api.objects.meta import ObjectKey
from reconciler.cli.connection import Connection
from reconciler.cli.exits import Unreachable
from reconciler.cli.help import AdvancedOption, Decorator, all_of
from reconciler.cli.output import remark
from reconciler.cluster.kinds import config_map
from reconciler.errors import Gone, Rejected

if TYPE_CHECKING:
    from reconciler.cluster.client import Client
    from reconciler.settings import Settings

CONTROLLER = "dra-reconciler/dra-reconciler"
"""The Deployment of deploy/base; the chart gives it the name of the release"""
_RENAMED = {"search_steps": "steps", "semantics": "release", "feature_gates": "gates"}
_KEPT = ("policy", "preferences", "demand", "koordinator_semantics", "group_modes", "exclusion_scopes")
OPTIONS = frozenset({*_RENAMED.values(), *_KEPT})
"""Names of the options that have settings"""


def deployment_option(**more: Any) -> Decorator:
    """`--deployment`, as an ObjectKey."""
    return click.option(
        "--deployment",
        metavar="NAMESPACE/NAME",
        default=CONTROLLER,
        show_default=True,
        help="The controller in the cluster.",
        **{"callback": _key, **more},
    )


def configured_options(*, in_cluster: bool) -> Decorator:
    """`--config` and, for commands that may read a cluster, `--deployment`."""
    default = "  [default: those of --deployment in a cluster]" if in_cluster else ""
    config = click.option(
        "--config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        is_eager=True,
        expose_value=False,
        callback=_from_file,
        metavar="FILE",
        help=f"Settings of a controller, for options of --help-all that are not given.{default}",
    )
    of_cluster = deployment_option(
        cls=AdvancedOption, is_eager=True, expose_value=False, callback=_from_deployment
    )
    return all_of(config, of_cluster) if in_cluster else config


def _key(_context: click.Context, _option: click.Parameter, text: str) -> ObjectKey:
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise click.BadParameter("write NAMESPACE/NAME")
    return ObjectKey(namespace, name)


def _from_file(ctx: click.Context, _option: click.Parameter, path: Path | None) -> None:
    """Take what is not given from a settings file and the environment, as `run` does."""
    if path is None:
        return
    # Late import: without the option, no command reads settings.
    from reconciler.settings import load  # noqa: PLC0415

    try:
        values = _as_options(load({}, path))
    except Rejected as exc:
        raise click.BadParameter(str(exc)) from exc
    if not any(one.name == "policy" for one in ctx.command.params):  # `--demand` of `top` is something else
        values.pop("demand", None)
    ctx.default_map = values


def _as_options(found: "Settings") -> dict[str, Any]:
    values = found.model_dump(exclude_unset=True)
    for name in ("policy", "group_modes", "exclusion_scopes"):
        if name in values:
            values[name] = [f"{target}={value}" for target, value in values[name].items()]
    return {_RENAMED.get(name, name): values[name] for name in (*_RENAMED, *_KEPT) if name in values}


def _from_deployment(ctx: click.Context, option: click.Parameter, text: str) -> None:
    key = _key(ctx, option, text)
    if ctx.default_map is None and not ctx.resilient_parsing:
        ctx.default_map = _OfDeployment(ctx, key)


class _OfDeployment(dict[str, Any]):
    """The values. They are read when click first asks for one: what is given is known then."""

    def __init__(self, ctx: click.Context, key: ObjectKey) -> None:
        super().__init__()
        self._ctx, self._key, self._read = ctx, key, False

    def __contains__(self, name: object) -> bool:
        if name in OPTIONS and not self._read:
            self._read = True
            source, typed = self._ctx.get_parameter_source, click.core.ParameterSource.COMMANDLINE
            self.update(
                self._found({one: it for one, it in self._ctx.params.items() if source(one) is typed})
            )
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """For click 8.1, which does not ask whether there is a value."""
        return self[name] if name in self else default  # noqa: SIM401 - this is the `get`

    def _found(self, given: Mapping[str, Any]) -> dict[str, Any]:
        connection = Connection.of(given)
        if not connection.named and (given.get("files") or given.get("more")):
            return {}
        if given.get("contexts"):
            return _by_default("several clusters are read")
        from reconciler.operations.log_setup import configure  # noqa: PLC0415 - only the client writes lines
        from reconciler.settings import load  # noqa: PLC0415 - as in `_from_file`

        configure("warning", "short")
        try:
            from reconciler.cli.cluster import from_cluster  # noqa: PLC0415 - commands on files spare asyncio

            read = from_cluster(_read(connection, self._key))
        except Unreachable:  # the command itself will say so
            return {}
        if isinstance(read, str):
            return _by_default(read) if read else {}
        arguments, environment = read
        try:
            values = _as_options(load(_flags(arguments), None, environment))
        except (Rejected, click.ClickException) as exc:
            return _by_default(f"Deployment {self._key}: {exc}")
        if values.pop("demand", None) is not None:
            remark(
                f"note: the demand file of Deployment {self._key} is not considered: give it with --demand"
            )
        return values


def _by_default(why: str) -> dict[str, Any]:
    remark(
        f"note: policy, steps, gates and semantics are the defaults, not the controller's (--config): {why}"
    )
    return {}


def _flags(arguments: list[str]) -> dict[str, Any]:
    """What flags of `run` set. Raises ClickException for wrong ones."""
    if not arguments:
        return {}
    from reconciler.cli.run import run  # noqa: PLC0415 - few have any, and it imports everything
    from reconciler.settings import Settings  # noqa: PLC0415 - as in `_from_file`

    values, fields = run.make_context("run", arguments).params, Settings.model_fields
    return {name: value for name, value in values.items() if value not in (None, ()) and name in fields}


async def _read(connection: Connection, key: ObjectKey) -> tuple[list[str], dict[str, str]] | str:
    """Flags and variables of the controller; or why there are none, which is empty if none can run there.

    Raises ReconcilerError or OSError if the server cannot be reached.
    """
    from reconciler.cli.cluster import connected  # noqa: PLC0415 - as above

    async with connected(connection, announced=False) as client:
        try:
            found = await client.fetch(
                f"/apis/apps/v1/namespaces/{key.namespace}/deployments",
                [("fieldSelector", f"metadata.name={key.name}")],
            )
            for one in found["items"]:
                for container in one["spec"]["template"]["spec"]["containers"]:
                    command, *flags = container.get("args") or [""]
                    if command == "run":
                        return flags, await _variables(client, key.namespace, container)
        except Gone:  # the embedded server has no Deployments
            return ""
        except Rejected as exc:
            return str(exc)
    return f"there is no Deployment {key} of it; name it with --deployment"


async def _variables(client: "Client", namespace: str, container: Mapping[str, Any]) -> dict[str, str]:
    """Its environment. Variables from other sources than ConfigMaps are left out."""

    async def data(reference: Mapping[str, Any]) -> Mapping[str, str]:
        named = ObjectKey(namespace, reference["name"])
        try:
            return (await client.get(config_map(named), named)).get("data") or {}
        except Gone:
            return {}

    found: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        if "configMapRef" in source:
            for name, value in (await data(source["configMapRef"])).items():
                found[f"{source.get('prefix', '')}{name}"] = value
    for one in container.get("env") or ():
        reference = one.get("valueFrom", {}).get("configMapKeyRef")
        known = (await data(reference)).get(reference["key"]) if reference else one.get("value")
        if known is not None:
            found[one["name"]] = known
    return found
