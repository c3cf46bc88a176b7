"""`dra-reconciler top`: the usage of devices, live or once."""

import asyncio
import sys
from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import suppress

import click
from rich.console import Console
from rich.live import Live

from reconciler.analysis.capacity import By, FleetLayout, Line, Solver, fleet_layout, lines, measure
from reconciler.api.manifests.bundle import Bundle
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.similar_names import instead
from reconciler.api.versions.reading import read
from reconciler.cli.common.connection import Connection
from reconciler.cli.common.exits import Exit, NoAnswer, errors_as
from reconciler.cli.common.fleet_source import bundle_objects, list_cluster, read_files
from reconciler.cli.common.options import cluster_options, files_option, output_option, rules_options
from reconciler.cli.common.output import console_on, echo_value
from reconciler.cli.views.capacity import as_json, tables
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.snapshot.snapshot import Snapshot
from reconciler.state.loading import store_of
from reconciler.state.store import Store

KINDS = ("DeviceTaintRule", "ResourceSlice", "ResourceClaim")
MAX_CHOICES = 200_000
"""Limit of the search for one table: at most a few seconds, if every counter set has its own state"""
ORDERS: dict[str, Callable[[Line], float]] = {
    "devices": lambda line: -line.devices,
    "held": lambda line: -(line.held + line.shared),
    "allocatable": lambda line: -line.allocatable,
    "fits": lambda line: -max((one.size for one in line.profiles if one.fits), default=0.0),
}
"""Value of `--sort` -> sort key, lowest first; equal lines stay sorted by name"""


@click.command()
@cluster_options
@files_option(required=False)
@click.option(
    "--by",
    type=click.Choice(["driver", "pool", "node"]),
    help="Group lines by this.  [default: driver; node with --node]",
)
@click.option("--driver", "drivers", multiple=True, metavar="NAME", help="Show only this driver.")
@click.option("--node", "nodes", multiple=True, metavar="NAME", help="Show only this node.")
@click.option("--sort", type=click.Choice(["name", *ORDERS]), default="name", show_default=True)
@click.option("--once", is_flag=True, help="Print once and exit; the default without a terminal.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=5.0,
    show_default=True,
    help="Seconds between updates.",
)
@output_option("table", "json", "yaml", explained="json and yaml are printed once.")
@click.option(
    "--koordinator",
    is_flag=True,
    help="Show Koordinator's devices instead; --driver then names a type: gpu, rdma, fpga.",
)
@rules_options
def top(
    connection: Connection,
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
    """Show how many devices exist, are allocated and are free; and how many more of each profile fit.

    For partitions that share counters, counts what fits at the same time. docs/capacity.md defines
    profile, stranded and fragmented.
    """
    if files and connection.named:
        raise click.UsageError("Name manifests with -f, or a cluster, not both.")
    chosen: By = by or ("node" if nodes else "driver")
    if nodes and chosen == "driver":
        raise click.UsageError("--node needs --by node or --by pool.")
    if koordinator:
        _machines(connection, files, chosen, drivers, nodes, sort, output, None if once else interval)
        return
    console = console_on(sys.stdout)
    gauge = Gauge()

    def selected(snapshot: Snapshot, *, check: bool = False) -> list[Line]:
        every = gauge.lines(snapshot, chosen)
        if check:
            _check_names("driver", drivers, {line.driver for line in every})
            _check_names("node", nodes, {line.node for line in every} | {*snapshot.topology.nodes})
        found = [
            line
            for line in every
            if (not drivers or line.driver in drivers) and (not nodes or line.node in nodes)
        ]
        return sorted(found, key=ORDERS[sort]) if sort in ORDERS else found

    with errors_as(click.ClickException):
        if files or once or output != "table" or not console.is_terminal:
            bundle = read_files(files) if files else None
            objects = list_cluster(KINDS, connection) if bundle is None else bundle_objects(bundle)
            _print(selected(store_of(objects, rules).snapshot(), check=True), chosen, output, console)
            _exit_if_invalid(bundle)
            return
        with suppress(KeyboardInterrupt), Live(console=console, auto_refresh=False, screen=True) as live:

            def show(snapshot: Snapshot) -> None:
                live.update(tables(selected(snapshot), chosen, console), refresh=True)

            asyncio.run(follow_usage(connection, rules, show, interval))


def _machines(
    connection: Connection,
    files: tuple[str, ...],
    by: By,
    types: Sequence[str],
    nodes: Sequence[str],
    sort: str,
    output: str,
    interval: float | None,
) -> None:
    """Show Koordinator's devices."""
    # Late imports: the other cases of `top` do not need them.
    from reconciler.allocation.koordinator.fleet import Fleet  # noqa: PLC0415
    from reconciler.analysis.capacity.machine_totals import Tally  # noqa: PLC0415
    from reconciler.api.koordinator.device import Device  # noqa: PLC0415
    from reconciler.api.koordinator.names import TYPES  # noqa: PLC0415
    from reconciler.cli.views import koordinator_machines  # noqa: PLC0415
    from reconciler.state.koordinator.rules import Semantics as DeviceSemantics  # noqa: PLC0415

    if by == "pool":
        raise click.UsageError(
            "Koordinator's devices have no pools: use --by node, or --by driver for types."
        )
    if sort not in ("name", "devices"):
        raise click.UsageError("Koordinator's devices can only be sorted by name or devices.")
    console = console_on(sys.stdout)
    refresh = interval if output == "table" and console.is_terminal and not files else None

    def lines(fleet: Fleet) -> list[Tally]:
        found = koordinator_machines.tallies(fleet, by, types, nodes)
        return sorted(found, key=lambda one: -one.devices) if sort == "devices" else found

    def once(fleet: Fleet) -> None:
        every = koordinator_machines.tallies(fleet, "node", (), ())
        _check_names("type", types, {*TYPES})
        _check_names("node", nodes, {one.node for one in every})
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
            _exit_if_invalid(bundle)
        elif refresh is None:
            asyncio.run(
                koordinator_machines.follow_machines(connection, DeviceSemantics.PROPOSAL, once, None)
            )
        else:
            with suppress(KeyboardInterrupt), Live(console=console, auto_refresh=False, screen=True) as live:

                def show(fleet: Fleet) -> None:
                    live.update(koordinator_machines.table(lines(fleet), by, console), refresh=True)

                asyncio.run(
                    koordinator_machines.follow_machines(connection, DeviceSemantics.PROPOSAL, show, refresh)
                )


def _check_names(kind: str, names: Iterable[str], known: Set[str]) -> None:
    """Raise NoAnswer for a name that does not exist."""
    for name in names:
        if name not in known:
            raise NoAnswer(f"there is no {kind} {name}{instead(name, known - {''}, f'{kind}s')}")


def _exit_if_invalid(bundle: Bundle | None) -> None:
    if bundle is not None and bundle.refused:
        sys.exit(Exit.FAILED)


class Gauge:
    """Measures one snapshot after another, and keeps what stays valid between them."""

    def __init__(self) -> None:
        self._solver = Solver(effort=MAX_CHOICES)
        self._known: tuple[Fleet, FleetLayout] | None = None

    def lines(self, snapshot: Snapshot, by: By) -> list[Line]:
        """Return the usage of the devices."""
        if self._known is None or self._known[0] is not snapshot.fleet:
            self._known = snapshot.fleet, fleet_layout(snapshot.fleet, snapshot.rules)
        return lines(measure(self._known[1], snapshot.occupancy, self._solver), by)


async def follow_usage(
    connection: Connection, rules: Semantics, show: Callable[[Snapshot], None], interval: float
) -> None:
    """Watch a cluster and show its state every `interval` seconds, until cancelled.

    Raises ReconcilerError or OSError if the first connection fails; later failures are retried.
    """
    # Late imports: the client library takes longer to import than these commands take for files.
    from reconciler.cli.common.cluster_following import following  # noqa: PLC0415
    from reconciler.cluster.client import Client  # noqa: PLC0415
    from reconciler.cluster.discovery import discover  # noqa: PLC0415
    from reconciler.cluster.http import connect  # noqa: PLC0415

    store = Store(rules)
    async with connect(**connection.arguments()) as transport:
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
