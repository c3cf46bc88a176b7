"""Options that say by which rules and policies a command decides. Few people need them: see `--help-all`."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reconciler.allocation.policies.names import FIRST_FIT, POLICIES, WEIGHINGS, Weighing
from reconciler.api.objects import semantics
from reconciler.cli.configured import configured_options
from reconciler.cli.help import Decorator, F, advanced_option, all_of
from reconciler.errors import Rejected

# Imported late: what decides. Commands that only rewrite manifests have no policy.
if TYPE_CHECKING:
    from reconciler.allocation.policies.demand import Demand


def _readable_by(read: Callable[[tuple[str, ...]], object]) -> Callable[..., tuple[str, ...]]:
    """A callback of click: the texts of an option, if `read` can read them."""

    def checked(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
        try:
            read(texts)
        except Rejected as exc:
            raise click.BadParameter(str(exc)) from exc
        return texts

    return checked


def _parse_policies(texts: tuple[str, ...]) -> object:
    from reconciler.allocation.policies.selection import parse_policies  # noqa: PLC0415

    return parse_policies(texts)


checked_policies = _readable_by(_parse_policies)


def _gates(_context: click.Context, _option: click.Parameter, text: str) -> str:
    try:
        semantics.with_gates(text)
    except Rejected as exc:
        raise click.BadParameter(str(exc)) from exc
    return text


_RULES = "reconciler.rules"


def rules_of_command() -> semantics.Semantics:
    """By which rules the command decides, and thus which fields of manifests it checks."""
    context = click.get_current_context(silent=True)
    return context.meta.get(_RULES, semantics.Semantics()) if context is not None else semantics.Semantics()


_gates_option = advanced_option(
    "--feature-gates",
    "gates",
    default="",
    callback=_gates,
    metavar="A=true,B=false",
    help="Feature gates to enable or disable; by default all are on but previews, and those that 1.36 lacks.",
)


def rules_options(func: F, *, in_cluster: bool = True) -> F:
    """The options that make a `Semantics`, for commands that do not ask a server for its gates."""

    @wraps(func)
    def command(
        *,
        gates: str,
        group_modes: tuple[str, ...],
        exclusion_scopes: tuple[str, ...],
        release: semantics.Release = "1.37",
        **rest: Any,
    ) -> Any:
        modes = semantics.with_group_modes(group_modes)
        scopes = semantics.with_exclusion_scopes(exclusion_scopes)
        on = semantics.with_gates(gates, lacking=semantics.lacking(release))
        rules = semantics.Semantics(release, on, modes, scopes)
        click.get_current_context().meta[_RULES] = rules
        return func(rules=rules, **rest)

    configured = configured_options(in_cluster=in_cluster)
    return all_of(configured, _gates_option, group_mode_option, exclusion_scope_option)(command)


def release_and_rules_options(func: F, *, in_cluster: bool = True) -> F:
    """`--semantics` and the options of `rules_options`, as one `rules`."""
    return release_option("release", default="1.37")(rules_options(func, in_cluster=in_cluster))


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
    callback=_readable_by(semantics.with_group_modes),
    metavar="DRIVER=MODE",
    help="How to compare a driver's compatibility groups: kep-5963 or pairwise; * stands for all other "
    "drivers.  [default: pairwise for drivers whose devices say compatibleOnlyWith, kep-5963 for others]",
)
"""`--group-mode`, once per driver."""


exclusion_scope_option = advanced_option(
    "--exclusion-scope",
    "exclusion_scopes",
    multiple=True,
    callback=_readable_by(semantics.with_exclusion_scopes),
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
        from reconciler.allocation.policies.demand import NO_DEMAND  # noqa: PLC0415
        from reconciler.allocation.policies.selection import Policies, parse_policies  # noqa: PLC0415

        names = parse_policies(policy)
        found = NO_DEMAND if demand is None else demand_in(demand)
        weighing = None if preferences is None else Weighing(preferences)
        return func(policies=Policies(names, found, policy_seed or 0, weighing), **rest)

    return all_of(policy_option, preferences_option, policy_seed_option, demand_option)(command)


def demand_in(path: Path) -> "Demand":
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
