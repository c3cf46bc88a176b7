"""Options shared by commands: input, cluster, allocation rules and output.

A decorator adds a group of options. Some groups become one argument of the command:
`connection` for the cluster, `rules` for the rules, `files` for all manifests.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce, wraps
from pathlib import Path
from typing import Any

import click

from reconciler.allocation.policies.demand import NO_DEMAND, Demand
from reconciler.allocation.policies.names import FIRST_FIT, POLICIES, WEIGHINGS, Weighing
from reconciler.allocation.policies.selection import Policies, parse_policies
from reconciler.api.objects.semantics import (
    Release,
    Semantics,
    with_exclusion_scopes,
    with_gates,
    with_group_modes,
)
from reconciler.cli.cluster import HELD_ROOM, Connection
from reconciler.cli.help import advanced_option
from reconciler.errors import Rejected

F = Callable[..., Any]
Decorator = Callable[[F], F]


def _readable_by(read: Callable[[tuple[str, ...]], object]) -> Callable[..., tuple[str, ...]]:
    """A callback of click: the texts of an option, if `read` can read them."""

    def checked(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
        try:
            read(texts)
        except Rejected as exc:
            raise click.BadParameter(str(exc)) from exc
        return texts

    return checked


checked_policies = _readable_by(parse_policies)


def _gates(_context: click.Context, _option: click.Parameter, text: str) -> frozenset[str]:
    try:
        return with_gates(text)
    except Rejected as exc:
        raise click.BadParameter(str(exc)) from exc


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


strict_option: Decorator = click.option(
    "--strict",
    is_flag=True,
    expose_value=False,
    callback=_set_strict,
    help="Refuse objects with fields or kinds that no release of Kubernetes has.",
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
        files_option(required=False),
        click.argument("more", nargs=-1, type=paths, metavar="[FILE|DIR]..."),
    )(command)


def connection_options(**default: Any) -> Decorator:
    """`--kubeconfig`, `--context`, `--server` and `--insecure-skip-tls-verify`."""
    return all_of(
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
        advanced_option(
            "--insecure-skip-tls-verify",
            is_flag=True,
            help="Accept any certificate.",
            **default,
        ),
    )


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
                from reconciler.operations.logs.setup import configure  # noqa: PLC0415

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
    options = [
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


def rules_options(func: F) -> F:
    """The options that make a `Semantics`, for commands that do not ask a server for its gates."""

    @wraps(func)
    def command(
        *,
        gates: frozenset[str],
        group_modes: tuple[str, ...],
        exclusion_scopes: tuple[str, ...],
        release: Release = "1.37",
        **rest: Any,
    ) -> Any:
        modes, scopes = with_group_modes(group_modes), with_exclusion_scopes(exclusion_scopes)
        return func(rules=Semantics(release, gates, modes, scopes), **rest)

    return all_of(_gates_option, group_mode_option, exclusion_scope_option)(command)


def release_and_rules_options(func: F) -> F:
    """`--semantics` and the options of `rules_options`, as one `rules`."""
    return release_option("release", default="1.37")(rules_options(func))


def release_option(name: str, **default: Any) -> Decorator:
    """`--semantics`."""
    return advanced_option(
        "--semantics",
        name,
        type=click.Choice(["1.37", "1.36"]),
        help="The Kubernetes release to follow where releases differ.  [default: 1.37]",
        **default,
    )


def koordinator_semantics_option(**default: Any) -> Decorator:
    """`--koordinator-semantics`."""
    return advanced_option(
        "--koordinator-semantics",
        type=click.Choice(["proposal", "upstream"]),
        help="Follow Koordinator's proposals or its release.  [default: proposal]",
        **default,
    )


group_mode_option = advanced_option(
    "--group-mode",
    "group_modes",
    multiple=True,
    callback=_readable_by(with_group_modes),
    metavar="DRIVER=MODE",
    help="How to compare a driver's compatibility groups: kep-5963 or pairwise; * stands for all other "
    "drivers.  [default: pairwise for drivers whose devices say compatibleOnlyWith, kep-5963 for others]",
)
"""`--group-mode`, once per driver."""


exclusion_scope_option = advanced_option(
    "--exclusion-scope",
    "exclusion_scopes",
    multiple=True,
    callback=_readable_by(with_exclusion_scopes),
    metavar="DRIVER=SCOPE",
    help="Which pairs of a driver's devices compatibleOnlyWith judges: counter-set (pairs that share a "
    "counter set, and pairs of which one draws from none) or pool (all); * stands for all other "
    "drivers.  [default: *=counter-set]",
)
"""`--exclusion-scope`, once per driver."""


def steps_option(default: int) -> Decorator:
    """`--steps`, for commands that decide once."""
    return advanced_option(
        "--steps",
        type=click.IntRange(min=1),
        default=default,
        show_default=True,
        help="Devices to try per decision and node before the search gives up.",
    )


namespace_option = click.option(
    "-n",
    "--namespace",
    metavar="NAME",
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
        "-o",
        "--output",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help=explained,
    )


_gates_option = advanced_option(
    "--feature-gates",
    "gates",
    default="",
    callback=_gates,
    metavar="A=true,B=false",
    help="Feature gates to enable or disable; all but previews are enabled by default.",
)


def all_of(*decorators: Decorator) -> Decorator:
    """Combine decorators, in the order in which they would be written above a function."""
    return lambda func: reduce(lambda made, decorator: decorator(made), reversed(decorators), func)


def _system_time() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Clock:
    """A source of the current time. A caller can pass another one as `obj` of click's context."""

    now: Callable[[], datetime] = _system_time


pass_clock = click.make_pass_decorator(Clock, ensure=True)
"""Passes the clock to a command, as its first argument"""


policy_option = advanced_option(
    "--policy",
    "policy",
    multiple=True,
    callback=checked_policies,
    metavar="[DRIVER=|class:CLASS=]NAME",
    help="Which nodes and devices to prefer, for all claims or those of a driver or class: "
    f"{', '.join(POLICIES)}. See docs/placement.md.  [default: {FIRST_FIT}]",
)
"""`--policy`, once for all claims and once for each driver and class with its own."""


preferences_option = advanced_option(
    "--preferences",
    type=click.Choice(WEIGHINGS),
    help="When preferences of pods count: before the policy, between nodes that it finds equal, or not. "
    "See docs/placement.md.  [default: last, off under first-fit]",
)
"""`--preferences`."""


policy_seed_option = advanced_option(
    "--policy-seed",
    type=click.IntRange(min=0),
    help="Start of the random numbers of expected-fill.  [default: 0]",
)
"""`--policy-seed`."""


demand_option = advanced_option(
    "--demand",
    type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
    metavar="FILE",
    help="The demand for which policies keep room, as JSON.",
)
"""`--demand`."""


def policy_options(func: F) -> F:
    """The options about placement policies, as one `policies`, for commands that decide once."""

    @wraps(func)
    def command(
        *,
        policy: tuple[str, ...],
        preferences: str | None,
        policy_seed: int | None,
        demand: Path | None,
        **rest: Any,
    ) -> Any:

        names = parse_policies(policy)
        found = NO_DEMAND if demand is None else demand_in(demand)
        weighing = None if preferences is None else Weighing(preferences)
        return func(policies=Policies(names, found, policy_seed or 0, weighing), **rest)

    return all_of(policy_option, preferences_option, policy_seed_option, demand_option)(command)


def demand_in(path: Path) -> Demand:
    """The demand in a file. Shapes that cannot be read are left out, with a warning on standard error."""
    # Late import: few commands are given a demand, and it needs what decides.
    from reconciler.control.demand import read_demand_file  # noqa: PLC0415

    try:
        found = read_demand_file(path)
    except Rejected as exc:
        raise click.UsageError(str(exc)) from exc
    for problem in found.refused:
        click.echo(f"warning: {problem}", err=True)
    return found.demand
