"""`dra-reconciler modes`: in which mode each physical device is, and what that locks out."""

import asyncio
import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from reconciler.cli.inputs import (
    files_option,
    gates_option,
    group_mode_option,
    report_refused,
    report_warnings,
)
from reconciler.cli.listing import list_objects
from reconciler.cli.plain import plain
from reconciler.cli.printing import UNBOUNDED
from reconciler.cli.reach import Reach, cluster_options
from reconciler.errors import Malformed, ReconcilerError
from reconciler.inventory.modes import Held, Mode, problems
from reconciler.inventory.modes import modes as modes_of
from reconciler.inventory.snapshot import Snapshot
from reconciler.inventory.store import Store
from reconciler.legacy.reading import read
from reconciler.manifests.bundle import Bundle, read_bundle
from reconciler.objects.changes import Changed
from reconciler.objects.claims import ResourceClaim
from reconciler.objects.meta import ApiObject
from reconciler.objects.semantics import Semantics, with_group_modes
from reconciler.objects.slices import ResourceSlice

FAILED = 1
KINDS = ("ResourceSlice", "ResourceClaim")


@click.command(short_help="Show what is held on each device, and what it locks out.")
@files_option(required=False)
@click.argument("more", nargs=-1, type=click.Path(exists=True, readable=True), metavar="[FILE|DIR]...")
@cluster_options
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@gates_option()
@group_mode_option()
def modes(
    files: tuple[str, ...],
    more: tuple[str, ...],
    reach: Reach,
    output: str,
    gates: frozenset[str],
    group_modes: tuple[str, ...],
) -> None:
    """Show, for each physical device whose parts exclude one another, what is held and what that locks out.

    A physical device is a counter set. Devices that draw from none count together by pool, or by node.
    What is held is read from the ResourceClaims, so that claims without an allocation show nothing.
    """
    if bool(files or more) == reach.named:
        raise click.UsageError("Name manifests with -f, or a cluster with --cluster.")
    store = Store(Semantics(gates=gates, group_modes=with_group_modes(group_modes)))
    refused = False
    if files or more:
        bundle = read_bundle((*files, *more), sys.stdin.buffer)
        refused = bool(bundle.refused)
        report_warnings(bundle.warnings)
        report_refused(bundle.refused)
        found: Iterable[ApiObject] = _of_bundle(bundle)
    else:
        try:
            found = _readable(asyncio.run(list_objects(KINDS, reach)))
        except (ReconcilerError, OSError) as exc:
            raise click.ClickException(str(exc)) from exc
    for thing in found:
        store.apply(Changed(type(thing).__name__, thing))
    world = store.snapshot()
    if output == "json":
        click.echo(json.dumps(_json(world), indent=2))
    else:
        _print(world, sys.stdout)
    if refused:
        sys.exit(FAILED)


def _of_bundle(bundle: Bundle) -> Iterator[ApiObject]:
    yield from bundle.of(ResourceSlice)
    for claim in bundle.of(ResourceClaim):  # manifests have no uid, or the one they were copied with
        metadata = claim.metadata.model_copy(update={"uid": str(claim.key)})
        yield claim.model_copy(update={"metadata": metadata})


def _readable(raws: Iterable[dict[str, Any]]) -> Iterator[ApiObject]:
    for raw in raws:
        try:
            yield read(raw)
        except Malformed as exc:
            click.echo(plain(f"refused: {exc}"), err=True)


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
    console = Console(file=out, highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        console.width = UNBOUNDED
    found = modes_of(world)
    table = Table(box=SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    for heading in ("POOL", "COUNTER SET", "HELD", "GROUPS", "CLAIM", "LOCKED OUT"):
        table.add_column(heading, overflow="fold")
    for mode in found:
        cells = (str(mode.pool), mode.scope or "-", *_columns(mode.held), _some(mode.locked_out))
        table.add_row(*(Text(plain(cell)) for cell in cells))
    if found:
        console.print(table)
    else:
        console.print("no device excludes another")
    for mode in found:
        for conflict in mode.conflicts:
            console.print(Text(plain(f"held side by side in {mode.pool} {mode.scope}: {conflict}")))
    for problem in problems(world):
        console.print(Text(plain(f"problem: {problem}")))


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
