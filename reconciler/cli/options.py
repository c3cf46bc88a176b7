"""Options shared by commands: input, one cluster or the contexts of several, and output."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from typing import Any

import click

from reconciler.cli.connection import HELD_ROOM, Connection
from reconciler.cli.help import Decorator, F, advanced_option, all_of
from reconciler.cli.names import completing
from reconciler.cli.rule_options import release_and_rules_options, steps_option


def _contexts(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in (text or "").split(",") if name.strip()))
    if text is not None and not names:
        raise click.BadParameter("name contexts, separated by commas, or all")
    return names


FOR_PEOPLE = ("table", "wide")
"""Values of `-o` that are not for programs"""


def files_option(*, required: bool) -> Decorator:
    """`-f`, which can be repeated; a directory is read recursively."""
    return click.option(
        "-f",
        "--filename",
        "files",
        multiple=True,
        required=required,
        type=click.Path(exists=True, readable=True, allow_dash=True),
        metavar="FILE|DIR|-",
        help="Manifests: a YAML or JSON file, a directory (recursive), or - for standard input.",
    )


_STRICT = "reconciler.strict"


def _set_strict(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    ctx.meta[_STRICT] = value


strict_option, advanced_strict_option = (
    option(
        "--strict",
        is_flag=True,
        expose_value=False,
        callback=_set_strict,
        help="Refuse objects with fields or kinds that no release of Kubernetes has.",
    )
    for option in (click.option, advanced_option)
)
"""For commands that read manifests, see `strict`"""


def strict() -> bool:
    """Whether the command was given `--strict`."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_STRICT))


def manifest_options(func: F) -> F:
    """`-f`, and files and directories as arguments; all become `files`."""

    @wraps(func)
    def command(*, files: tuple[str, ...], more: tuple[str, ...], **rest: Any) -> Any:
        return func(files=(*files, *more), **rest)

    paths = click.Path(exists=True, readable=True)
    return all_of(
        files_option(required=False), click.argument("more", nargs=-1, type=paths, metavar="[FILE|DIR]...")
    )(command)


def connection_options(*, insecure: bool = True) -> Decorator:
    """`--kubeconfig`, `--context`, `--server`, and maybe `--insecure-skip-tls-verify`."""
    options = [
        click.option(
            "--kubeconfig",
            type=click.Path(),
            metavar="FILE",
            help="Kubeconfig of the cluster.  [default: KUBECONFIG, ~/.kube/config, or the pod's account]",
        ),
        click.option(
            "--context", metavar="NAME", help="Context of the kubeconfig.  [default: its current one]"
        ),
        click.option("--server", metavar="URL", help="An API server that needs no credentials."),
    ]
    if insecure:
        options.append(
            advanced_option("--insecure-skip-tls-verify", is_flag=True, help="Accept any certificate.")
        )
    return all_of(*options)


def cluster_options_to(use: str, *, with_files: bool = True) -> Decorator:
    """`--cluster`, which means `use`, and the connection options, as one `connection`.

    Unless `with_files`, a cluster excludes manifests.
    """

    def decorate(func: F) -> F:
        @wraps(func)
        def command(
            *,
            cluster: bool,
            kubeconfig: str | None,
            context: str | None,
            server: str | None,
            insecure_skip_tls_verify: bool,
            **rest: Any,
        ) -> Any:
            named = bool(cluster or kubeconfig or context or server or rest.get("contexts"))
            if named and rest.get("files") and not rest.get("contexts") and not with_files:
                raise click.UsageError("Name manifests with -f, or a cluster, not both.")
            if named or not rest.get("files"):
                # Late import: only the client of a cluster writes log lines.
                from reconciler.operations.log_setup import configure  # noqa: PLC0415

                configure("warning", "short")
            quiet = rest.get("output") not in FOR_PEOPLE
            chosen = Connection(named, server, kubeconfig, context, insecure_skip_tls_verify, quiet)
            return func(connection=chosen, **rest)

        return all_of(
            click.option(
                "--cluster",
                is_flag=True,
                help=f"{use}: from KUBECONFIG or ~/.kube/config, or the one this runs in.",
            ),
            connection_options(),
        )(command)

    return decorate


DEFAULT_WITHOUT_FILES = "Read a cluster, the default without -f"
cluster_options = cluster_options_to(DEFAULT_WITHOUT_FILES, with_files=False)
"""For commands that read manifests or a cluster"""


def fleet_options(
    *formats: str, explained: str | None = None, steps: int | None = None, with_files: bool = False
) -> Decorator:
    """The options of questions about a fleet: `-f`, a cluster and the room that is held there, `-o`, rules.

    And `--steps`, if there is a default for it.
    """
    options: list[Decorator] = [
        files_option(required=False),
        strict_option,
        cluster_options_to(DEFAULT_WITHOUT_FILES, with_files=with_files),
        held_room_option,
        output_option(*formats, explained=explained),
        release_and_rules_options,
    ]
    return all_of(*options, *([steps_option(steps)] if steps is not None else []))


def held_room_option(func: F) -> F:
    """`--held-room`; below `cluster_options`, whose `connection` gets it."""

    @wraps(func)
    def command(*, connection: Connection, held_room: tuple[str, ...], **rest: Any) -> Any:
        return func(connection=connection._replace(held_room=tuple(filter(None, held_room))), **rest)

    return advanced_option(
        "--held-room",
        multiple=True,
        metavar="NAMESPACE/NAME",
        default=(HELD_ROOM,),
        show_default=True,
        help="ConfigMap in which the reconciler writes which room it holds. Can be repeated, for shards. "
        "Empty: held room is not considered.",
    )(command)


contexts_option = click.option(
    "--contexts",
    metavar="A,B|all",
    callback=_contexts,
    help="Several contexts of the kubeconfig at once. One that cannot be read does not stop the others.",
)
"""`--contexts`, for commands that can show several clusters; below `cluster_options`."""


namespace_option = click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    shell_complete=completing("Namespace"),
    help="Namespace of names without one.  [default: that of the context; of manifests: default]",
)
"""`-n`, for commands that take claim names: None if it is not given; see `namespace_of`."""


def namespace_of(given: str | None, connection: Connection, *, in_cluster: bool) -> str:
    """The namespace of names without one. Raises Rejected if no cluster is found, to take it from."""
    return given or (connection.target().namespace if in_cluster else "default")


def named(target: str, types: Mapping[str, str], default: str) -> tuple[str, str, str]:
    """What `[TYPE/]NAME` or `[NAMESPACE/]NAME` names: the type, the namespace (maybe empty) and the name.

    `types` has each spelling of a type. Raises UsageError.
    """
    before, _, name = target.rpartition("/")
    if not name or "/" in before:
        raise click.UsageError(f"{target!r} is not a name: write NAME, NAMESPACE/NAME or TYPE/NAME.")
    kind = types.get(before.lower().partition(".")[0])
    return (kind, "", name) if kind is not None else (default, before, name)


CLAIM_TYPES = dict.fromkeys(("claim", "claims", "resourceclaim", "resourceclaims"), "claim")
POD_TYPES = dict.fromkeys(("pod", "pods", "po"), "pod")


def output_option(*formats: str, explained: str | None = None) -> Decorator:
    """`-o`, with the first format as the default."""
    return click.option(
        "-o", "--output", type=click.Choice(formats), default=formats[0], show_default=True, help=explained
    )


def _system_time() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Clock:
    """A source of the current time. A caller can pass another one as `obj` of click's context."""

    now: Callable[[], datetime] = _system_time


pass_clock = click.make_pass_decorator(Clock, ensure=True)
"""Passes the clock to a command, as its first argument"""


_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Duration(click.ParamType[float]):
    """A duration such as `50ms`, `10m` or `1h30m`, as seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds; fail if the value is not a duration."""
        if isinstance(value, float):
            return value
        parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", str(value))
        if not parts or "".join(number + unit for number, unit in parts) != value:
            self.fail(f"{value!r} is not a duration; write for example 50ms, 10m or 1h30m", param, ctx)
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
