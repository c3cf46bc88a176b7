"""Options about placement policies, which most commands that decide have."""

from functools import wraps
from pathlib import Path
from typing import Any

import click

from reconciler.allocation.policies.demand import NO_DEMAND, Demand
from reconciler.allocation.policies.names import FIRST_FIT, POLICIES, WEIGHINGS, Weighing
from reconciler.allocation.policies.selection import Policies, parse_policies
from reconciler.cli.options import F, all_of
from reconciler.control.demand import read_demand_file
from reconciler.errors import Rejected


def policy_option(func: F) -> F:
    """`--policy`, once for all claims and once for each driver and class with its own."""
    return click.option(
        "--policy",
        "policy",
        multiple=True,
        callback=checked_policies,
        metavar="[DRIVER=|class:CLASS=]NAME",
        help="Which nodes and devices to prefer, for all claims or those of a driver or class: "
        f"{', '.join(POLICIES)}. See docs/placement.md.  [default: {FIRST_FIT}]",
    )(func)


def preferences_option(func: F) -> F:
    """`--preferences`."""
    return click.option(
        "--preferences",
        type=click.Choice(WEIGHINGS),
        help="When preferences of pods count: before the policy, between nodes that it finds equal, or not. "
        "See docs/placement.md.  [default: last, off under first-fit]",
    )(func)


def policy_seed_option(func: F) -> F:
    """`--policy-seed`."""
    return click.option(
        "--policy-seed",
        type=click.IntRange(min=0),
        help="Start of the random numbers of expected-fill.  [default: 0]",
    )(func)


def demand_option(func: F) -> F:
    """`--demand`."""
    return click.option(
        "--demand",
        type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
        metavar="FILE",
        help="The demand for which policies keep room, as JSON.",
    )(func)


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
    try:
        found = read_demand_file(path)
    except Rejected as exc:
        raise click.UsageError(str(exc)) from exc
    for problem in found.refused:
        click.echo(f"warning: {problem}", err=True)
    return found.demand


def checked_policies(
    _context: click.Context, _option: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    """The texts, if `parse_policies` can read them. A callback of click."""
    if not texts:
        return texts

    try:
        parse_policies(texts)
    except Rejected as exc:
        raise click.BadParameter(str(exc)) from exc
    return texts
