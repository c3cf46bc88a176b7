"""`dra-reconciler modes`: in which mode each physical device is, and what that locks out."""

import sys
from collections.abc import Iterable
from typing import Any, TextIO

import click

from reconciler.api.manifests.uids import with_own_uid
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import ResourceSlice
from reconciler.cli.common.connection import Reach
from reconciler.cli.common.exits import Exit, errors_as
from reconciler.cli.common.fleet_source import list_cluster, read_files
from reconciler.cli.common.options import cluster_options, manifest_options, output_option, rules_options
from reconciler.cli.common.output import add_row, console_on, echo_value, say, table_for
from reconciler.state.devices.exclusion.modes import Held, Mode, problems
from reconciler.state.devices.exclusion.modes import modes as modes_of
from reconciler.state.devices.snapshot.snapshot import Snapshot
from reconciler.state.loading import store_of

KINDS = ("ResourceSlice", "ResourceClaim")


@click.command(short_help="Show what is held on each device, and what it locks out.")
@manifest_options
@cluster_options
@output_option("table", "json")
@rules_options
def modes(files: tuple[str, ...], reach: Reach, output: str, rules: Semantics) -> None:
    """Show, for each physical device whose parts exclude one another, what is held and what that locks out.

    A physical device is a counter set. Devices that draw from none count together by pool, or by node.
    What is held is read from the ResourceClaims, so that claims without an allocation show nothing.
    """
    if bool(files) == reach.named:
        raise click.UsageError("Name manifests with -f, or a cluster with --cluster.")
    refused = False
    if files:
        bundle = read_files(files)
        refused = bool(bundle.refused)
        found: Iterable[ApiObject] = (
            *bundle.of(ResourceSlice),
            *map(with_own_uid, bundle.of(ResourceClaim)),
        )
    else:
        with errors_as(click.ClickException):
            found = list_cluster(KINDS, reach)
    world = store_of(found, rules).snapshot()
    if output == "json":
        echo_value(_json(world), "json")
    else:
        _print(world, sys.stdout)
    if refused:
        sys.exit(Exit.FAILED)


def _json(world: Snapshot) -> dict[str, Any]:
    return {"modes": [_mode(mode) for mode in modes_of(world)], "problems": list(problems(world))}


def _mode(mode: Mode) -> dict[str, Any]:
    return {
        "driver": mode.pool.driver,
        "pool": mode.pool.pool,
        "counterSet": mode.scope or None,
        "node": mode.node or None,
        "held": [
            {
                "device": held.device.device,
                "groups": list(held.groups),
                "compatibleOnlyWith": held.expression or None,
                "claims": [str(claim) for claim in held.claims],
            }
            for held in mode.held
        ],
        "lockedOut": list(mode.locked_out),
        "conflicts": list(mode.conflicts),
    }


def _print(world: Snapshot, out: TextIO) -> None:
    console = console_on(out)
    found = modes_of(world)
    table = table_for(console, ("POOL", "COUNTER SET", "HELD", "GROUPS", "CLAIM", "LOCKED OUT"))
    for mode in found:
        cells = (str(mode.pool), mode.scope or "-", *_columns(mode.held), _some(mode.locked_out))
        add_row(table, cells)
    if found:
        console.print(table)
    else:
        console.print("no device excludes another")
    for mode in found:
        for conflict in mode.conflicts:
            say(console, f"held side by side in {mode.pool} {mode.scope}: {conflict}")
    for problem in problems(world):
        say(console, f"problem: {problem}")


def _columns(held: Iterable[Held]) -> tuple[str, str, str]:
    """Devices, groups and claims, one line a device."""
    lines = [
        (one.device.device, ", ".join(one.groups) or one.expression or "-", ", ".join(map(str, one.claims)))
        for one in held
    ]
    if not lines:
        return "-", "-", "-"
    devices, groups, claims = zip(*lines, strict=True)
    return "\n".join(devices), "\n".join(groups), "\n".join(claims)


def _some(names: tuple[str, ...], limit: int = 8) -> str:
    shown = ", ".join(names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown or "-"
