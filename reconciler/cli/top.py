"""`dra-reconciler top`: how full the devices are, again and again."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

import click
from rich.console import Console
from rich.live import Live

from reconciler.analysis.capacity import By, FleetLayout, Line, Solver, fleet_layout, lines, measure
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.cli.common.connection import Reach
from reconciler.cli.common.exits import errors_as
from reconciler.cli.common.fleet_source import in_bundle, list_cluster, read_files
from reconciler.cli.common.options import cluster_options, files_option, output_option, rules_options
from reconciler.cli.common.output import console_on, echo_value
from reconciler.cli.views.capacity import as_json, tables
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.snapshot.snapshot import Snapshot
from reconciler.state.loading import store_of
from reconciler.state.store import Store

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
@output_option("table", "json", "yaml", explained="json and yaml are written once.")
@click.option(
    "--koordinator",
    is_flag=True,
    help="Koordinator's devices instead, by Device objects and pods; a driver is a type: gpu, rdma, fpga.",
)
@rules_options
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
    koordinator: bool,
    rules: Semantics,
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
    if koordinator:
        _machines(reach, files, chosen, drivers, nodes, sort, output, None if once else interval)
        return
    console = console_on(sys.stdout)
    gauge = Gauge()

    def seen(world: Snapshot) -> list[Line]:
        found = [
            line
            for line in gauge.lines(world, chosen)
            if (not drivers or line.driver in drivers) and (not nodes or line.node in nodes)
        ]
        return sorted(found, key=ORDERS[sort]) if sort in ORDERS else found

    with errors_as(click.ClickException):
        if files or once or output != "table" or not console.is_terminal:
            objects = in_bundle(read_files(files)) if files else list_cluster(KINDS, reach)
            _print(seen(store_of(objects, rules).snapshot()), chosen, output, console)
            return
        with suppress(KeyboardInterrupt), Live(console=console, auto_refresh=False, screen=True) as live:

            def show(world: Snapshot) -> None:
                live.update(tables(seen(world), chosen, console), refresh=True)

            asyncio.run(follow_fullness(reach, rules, show, interval))


def _machines(
    reach: Reach,
    files: tuple[str, ...],
    by: By,
    types: Sequence[str],
    nodes: Sequence[str],
    sort: str,
    output: str,
    interval: float | None,
) -> None:
    """Show Koordinator's devices."""
    # What decides about them is imported by nobody who asks for something else.
    from reconciler.allocation.koordinator.fleet import Fleet  # noqa: PLC0415
    from reconciler.analysis.capacity.machine_totals import Tally  # noqa: PLC0415
    from reconciler.api.koordinator.device import Device  # noqa: PLC0415
    from reconciler.cli.views import koordinator_machines  # noqa: PLC0415
    from reconciler.state.koordinator.rules import Semantics as DeviceSemantics  # noqa: PLC0415

    if by == "pool":
        raise click.UsageError("Koordinator's devices have no pools: --by node, or --by driver for types.")
    if sort not in ("name", "devices"):
        raise click.UsageError("Koordinator's devices are sorted by name or by devices.")
    console = console_on(sys.stdout)
    lasting = interval if output == "table" and console.is_terminal and not files else None

    def lines(fleet: Fleet) -> list[Tally]:
        found = koordinator_machines.tallies(fleet, by, types, nodes)
        return sorted(found, key=lambda one: -one.devices) if sort == "devices" else found

    def once(fleet: Fleet) -> None:
        found = lines(fleet)
        if output != "table":
            echo_value(koordinator_machines.as_json(found, by), output)
        else:
            console.print(
                koordinator_machines.table(found, by, console) if found else "no devices are published"
            )

    with errors_as(click.ClickException):
        if files:
            bundle = read_files(files)
            objects = (*bundle.of(Node), *bundle.of(Device), *bundle.of(Pod))
            once(koordinator_machines.fleet_of(objects, DeviceSemantics.PROPOSAL))
        elif lasting is None:
            asyncio.run(koordinator_machines.follow_machines(reach, DeviceSemantics.PROPOSAL, once, None))
        else:
            with suppress(KeyboardInterrupt), Live(console=console, auto_refresh=False, screen=True) as live:

                def show(fleet: Fleet) -> None:
                    live.update(koordinator_machines.table(lines(fleet), by, console), refresh=True)

                asyncio.run(
                    koordinator_machines.follow_machines(reach, DeviceSemantics.PROPOSAL, show, lasting)
                )


class Gauge:
    """Measures pictures one after another, and remembers what it need not find out again."""

    def __init__(self) -> None:
        self._solver = Solver(effort=EFFORT)
        self._known: tuple[Fleet, FleetLayout] | None = None

    def lines(self, world: Snapshot, by: By) -> list[Line]:
        """How full it is."""
        if self._known is None or self._known[0] is not world.fleet:
            self._known = world.fleet, fleet_layout(world.fleet, world.rules)
        return lines(measure(self._known[1], world.occupancy, self._solver), by)


async def follow_fullness(
    reach: Reach, rules: Semantics, show: Callable[[Snapshot], None], interval: float
) -> None:
    """Show a cluster as it is, from its first listing on, every so many seconds. Ends when cancelled.

    Raises a ReconcilerError or OSError when the server cannot be asked at first; later it is asked again.
    """
    # Importing the client library takes longer than all else these commands do for files.
    from reconciler.cli.common.cluster_following import following  # noqa: PLC0415
    from reconciler.cluster.client import Client  # noqa: PLC0415
    from reconciler.cluster.discovery import discover  # noqa: PLC0415
    from reconciler.cluster.http import connect  # noqa: PLC0415

    store = Store(rules)
    async with connect(**reach.arguments()) as transport:
        client = Client(transport)
        served = await discover(client, also=KINDS)
        decoders = {kind: read for kind in KINDS if kind in served}
        async with following(client, served, decoders, store.apply):
            while True:
                show(store.snapshot())
                await asyncio.sleep(interval)


def _print(found: Sequence[Line], by: By, output: str, console: Console) -> None:
    if output != "table":
        echo_value(as_json(found, by), output)
    else:
        console.print(tables(found, by, console) if found else "no devices are published")
