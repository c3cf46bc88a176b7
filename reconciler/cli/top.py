"""`dra-reconciler top`: how full the devices are, again and again."""

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import random

import click
import yaml
from rich.console import Console
from rich.live import Live

from reconciler.cli.fullness import as_json, tables
from reconciler.cli.inputs import files_option, gates_option, group_mode_option
from reconciler.cli.printing import console_on
from reconciler.cli.reach import Reach, cluster_options
from reconciler.cli.world import in_bundle, list_cluster, picture_of, read_files
from reconciler.errors import ReconcilerError
from reconciler.fullness import By, Ground, Line, Solver, lay_ground, lines, measure
from reconciler.inventory.fleet import Fleet
from reconciler.inventory.snapshot import Snapshot
from reconciler.inventory.store import Store
from reconciler.objects.changes import Change, Replaced
from reconciler.objects.semantics import Semantics, with_group_modes

KINDS = ("DeviceTaintRule", "ResourceSlice", "ResourceClaim")
EFFORT = 200_000
"""Choices looked at for one table: a few seconds, where sets are in as many states as there are sets"""
ORDERS: dict[str, Callable[[Line], float]] = {
    "devices": lambda line: -line.devices,
    "held": lambda line: -(line.held + line.shared),
    "allocatable": lambda line: -line.allocatable,
    "fits": lambda line: -max((one.size for one in line.profiles if one.fits), default=0.0),
}
"""What `--sort` can say -> what goes first, the lowest; equal lines stay sorted by name"""


@click.command(short_help="Show how full the devices are, and what still fits.")
@cluster_options
@files_option(required=False)
@click.option(
    "--by",
    type=click.Choice(["driver", "pool", "node"]),
    help="What a line is.  [default: driver; node with --node]",
)
@click.option("--driver", "drivers", multiple=True, metavar="NAME", help="Only this driver.")
@click.option("--node", "nodes", multiple=True, metavar="NAME", help="Only this node.")
@click.option("--sort", type=click.Choice(["name", *ORDERS]), default="name", show_default=True)
@click.option("--once", is_flag=True, help="Show it once, and end. So it is without a terminal.")
@click.option(
    "--interval", type=click.FloatRange(min=0.1), default=5.0, show_default=True, help="Seconds between two."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="json and yaml are written once.",
)
@gates_option()
@group_mode_option()
def top(
    reach: Reach,
    files: tuple[str, ...],
    by: By | None,
    drivers: tuple[str, ...],
    nodes: tuple[str, ...],
    sort: str,
    once: bool,
    interval: float,
    output: str,
    gates: frozenset[str],
    group_modes: tuple[str, ...],
) -> None:
    """Show how many devices there are, are held and can still be had; and how many more of each profile fit.

    Devices that are partitions of one another are counted by what fits at once, net of the counters that
    they share. docs/capacity.md says what a profile, stranded and fragmented are.
    """
    if files and reach.named:
        raise click.UsageError("Name manifests with -f, or a cluster, not both.")
    chosen: By = by or ("node" if nodes else "driver")
    if nodes and chosen == "driver":
        raise click.UsageError("--node goes with --by node or --by pool.")
    rules = Semantics(gates=gates, group_modes=with_group_modes(group_modes))
    console = console_on(sys.stdout)
    gauge = Gauge()

    def seen(world: Snapshot) -> list[Line]:
        found = [
            line
            for line in gauge.lines(world, chosen)
            if (not drivers or line.driver in drivers) and (not nodes or line.node in nodes)
        ]
        return sorted(found, key=ORDERS[sort]) if sort in ORDERS else found

    try:
        if files or once or output != "table" or not console.is_terminal:
            objects = in_bundle(read_files(files)) if files else list_cluster(KINDS, reach)
            _print(seen(picture_of(objects, rules).snapshot()), chosen, output, console)
            return
        with suppress(KeyboardInterrupt), Live(console=console, auto_refresh=False, screen=True) as live:

            def show(world: Snapshot) -> None:
                live.update(tables(seen(world), chosen, console), refresh=True)

            asyncio.run(follow_fullness(reach, rules, show, interval))
    except (ReconcilerError, OSError) as exc:
        raise click.ClickException(str(exc)) from exc


class Gauge:
    """Measures pictures one after another, and remembers what it need not find out again."""

    def __init__(self) -> None:
        self._solver = Solver(effort=EFFORT)
        self._known: tuple[Fleet, Ground] | None = None

    def lines(self, world: Snapshot, by: By) -> list[Line]:
        """How full it is."""
        if self._known is None or self._known[0] is not world.fleet:
            self._known = world.fleet, lay_ground(world.fleet, world.rules)
        return lines(measure(self._known[1], world.occupancy, self._solver), by)


async def follow_fullness(
    reach: Reach, rules: Semantics, show: Callable[[Snapshot], None], interval: float
) -> None:
    """Show a cluster as it is, from its first listing on, every so many seconds. Ends when cancelled.

    Raises a ReconcilerError or OSError when the server cannot be asked at first; later it is asked again.
    """
    # Importing the client library takes longer than all else these commands do for files.
    from reconciler.cluster.client import Client  # noqa: PLC0415
    from reconciler.cluster.discovery import discover  # noqa: PLC0415
    from reconciler.cluster.http import connect  # noqa: PLC0415
    from reconciler.cluster.watch import follow  # noqa: PLC0415

    store = Store(rules)
    missing: set[str] = set()
    whole = asyncio.Event()

    def take(change: Change) -> None:
        store.apply(change)
        if isinstance(change, Replaced):
            missing.discard(change.kind)
            if not missing:
                whole.set()

    async with connect(**reach.arguments()) as transport:
        client = Client(transport)
        served = await discover(client, also=KINDS)
        missing.update(kind for kind in KINDS if kind in served)
        async with asyncio.TaskGroup() as group:
            for kind in sorted(missing):
                group.create_task(
                    follow(client, served[kind], sink=take, random=random), name=f"watch {kind}"
                )
            await whole.wait()
            while True:
                show(store.snapshot())
                await asyncio.sleep(interval)


def _print(found: Sequence[Line], by: By, output: str, console: Console) -> None:
    match output:
        case "json":
            click.echo(json.dumps(as_json(found, by), indent=2))
        case "yaml":
            click.echo(yaml.safe_dump(as_json(found, by), sort_keys=False), nl=False)
        case _:
            console.print(tables(found, by, console) if found else "no devices are published")
