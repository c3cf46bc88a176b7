"""`dra-reconciler top`: the usage of devices, live or once."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import Any

import click

from reconciler.analysis.capacity.evicted import held_under_taint
from reconciler.analysis.capacity.layout import FleetLayout, fleet_layout
from reconciler.analysis.capacity.lines import By, Line, lines
from reconciler.analysis.capacity.measure import Solver, measure
from reconciler.api.objects.semantics import Semantics
from reconciler.api.plugins import PLUGINS
from reconciler.cli.cluster import (
    Connection,
    FollowedRoom,
    connected,
    following,
    from_cluster,
    hold_room,
    list_objects,
    note_held_room,
    split_held_room,
)
from reconciler.cli.contexts import ask_each, check_contexts, contexts_as_json, report_unreached, side_by_side
from reconciler.cli.exits import NoAnswer, errors_as
from reconciler.cli.input import bundle_objects, read_files, read_valid
from reconciler.cli.options import (
    FOR_PEOPLE,
    Clock,
    cluster_options,
    contexts_option,
    files_option,
    held_room_option,
    output_option,
    pass_clock,
    strict_option,
)
from reconciler.cli.output import Console, Table, echo_value, print_table, remark, remarks_on
from reconciler.cli.rule_options import rules_options
from reconciler.cli.top_tables import usage_as_json, usage_tables
from reconciler.cli.top_view import (
    NO_DEVICES,
    TopOptions,
    TopView,
    check_names,
    watch_cluster,
)
from reconciler.cluster.discovery import discover
from reconciler.state.devices.readiness import readiness
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.nominations import NOBODY
from reconciler.state.store import Store
from reconciler.state.trial import store_of

KINDS = ("DeviceTaintRule", "Node", "ResourceSlice", "ResourceClaim")
MAX_CHOICES = 200_000
"""Limit of the search for one table: at most a few seconds, if every counter set has its own state"""
ORDERS: dict[str, Callable[[Line], float]] = {
    "devices": lambda line: -line.devices,
    "held": lambda line: -(line.held + line.shared),
    "allocatable": lambda line: -line.allocatable,
    "fits": lambda line: -max((one.size for one in line.profiles if one.fits), default=0.0),
}
"""Value of `--sort` -> sort key, lowest first; equal lines stay sorted by name"""
SORTS = ("name", *ORDERS)
"""Values of `--sort`"""


@click.command()
@cluster_options
@contexts_option
@held_room_option
@files_option(required=False)
@strict_option
@click.option(
    "--by",
    type=click.Choice(["driver", "pool", "node"]),
    help="Group lines by this.  [default: driver; node with --node]",
)
@click.option("--driver", "drivers", multiple=True, metavar="NAME", help="Show only this driver.")
@click.option("--node", "nodes", multiple=True, metavar="NAME", help="Show only this node.")
@click.option("--sort", type=click.Choice(SORTS), default="name", show_default=True)
@click.option("--once", is_flag=True, help="Print once and exit; the default without a terminal.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=5.0,
    show_default=True,
    help="Seconds between updates.",
)
@output_option(
    "table", "wide", "json", "yaml", explained="wide adds columns; json and yaml are printed once."
)
@click.option(
    "--koordinator",
    is_flag=True,
    help="Show Koordinator's devices instead; --driver then names a type: gpu, rdma, fpga.",
)
@click.option(
    "--demand",
    metavar="NAMESPACE/NAME",
    help="Show the learnt demand and the comparison of policies in this ConfigMap instead.",
)
@click.option("--gangs", is_flag=True, help="Show gangs instead, once: size, pods, domain, why pending.")
@rules_options
@pass_clock
def top(
    clock: Clock,
    connection: Connection,
    contexts: tuple[str, ...],
    files: tuple[str, ...],
    by: By | None,
    drivers: tuple[str, ...],
    nodes: tuple[str, ...],
    sort: str,
    once: bool,
    interval: float,
    output: str,
    koordinator: bool,
    demand: str | None,
    gangs: bool,
    rules: Semantics,
) -> None:
    """Show how many devices exist, are allocated and are free; and how many more of each profile fit.

    For partitions that share counters, counts what fits at the same time. docs/capacity.md defines
    profile, stranded and fragmented.

    On a terminal, shows a cluster until q is pressed: arrow and page keys scroll, s changes the order.
    Several --contexts are printed once, in one table.

    \b
    Examples:
      dra-reconciler top
      dra-reconciler top --by node -f manifests/
    """
    check_contexts(connection, contexts, files, output)
    if gangs and (koordinator or by or drivers or nodes or sort != "name"):
        raise click.UsageError("--gangs has no --by, --driver, --node, --sort and --koordinator.")
    chosen: By = by or ("node" if nodes else "driver")
    if nodes and chosen == "driver":
        raise click.UsageError("--node needs --by node or --by pool.")
    console = Console(sys.stdout)
    live = (
        not (files or contexts or once or console.is_dumb_terminal)
        and console.is_terminal
        and output in FOR_PEOPLE
    )
    options = TopOptions(chosen, drivers, nodes, sort, output, live=live, interval=interval)
    with errors_as(NoAnswer):
        if demand is not None:
            from reconciler.cli.top_demand import show_demand  # noqa: PLC0415

            show_demand(demand, files, connection, console, output)
            return
        if gangs:
            from reconciler.cli.top_gangs import show_gangs  # noqa: PLC0415 - it needs what decides

            show_gangs(connection, files, rules, output, console)
            return
        if contexts:
            if koordinator:
                raise click.UsageError("--contexts does not show Koordinator's devices.")
            _show_contexts(connection, contexts, options, rules, console)
            return
        if koordinator:
            # Late import: the other cases of `top` do not need it.
            from reconciler.cli.top_plugin import show_plugin  # noqa: PLC0415

            plugin = next(one for one in PLUGINS if one.name == "koordinator")
            show_plugin(plugin, connection, files, options, console, clock)
            return
        view = UsageView(options)
        if live:
            from_cluster(_watch(connection, rules, view, console, clock))
        else:
            bundle = read_files(files) if files else None
            if bundle is None:
                snapshot = _of_cluster(from_cluster(list_objects(KINDS, connection)), rules)
            else:
                snapshot = store_of(bundle_objects(bundle), rules).snapshot()
            every = Gauge().lines(snapshot, chosen)
            check_names("driver", drivers, {line.driver for line in every})
            check_names("node", nodes, {line.node for line in every} | {*snapshot.topology.nodes})
            view.take(every)
            view.print_on(console)
            _note_unusable(snapshot)


MOST_NOTES = 10


def _note_unusable(snapshot: Snapshot) -> None:
    """Note the pools whose devices are not counted, and why; and who holds devices that are to be left."""
    problems = readiness(snapshot.topology).problems
    for at in list(problems)[:MOST_NOTES]:
        remark(f"note: pool {snapshot.fleet.pools[at].id} cannot be used: {problems[at]}")
    if len(problems) > MOST_NOTES:
        remark(f"note: {len(problems) - MOST_NOTES} more pools cannot be used")
    for held in islice(held_under_taint(snapshot), MOST_NOTES):
        remark(f"note: {held}")


class UsageView(TopView[Line]):
    """The usage of devices by driver, pool or node."""

    orders = ORDERS

    def selected(self, line: Line) -> bool:
        """Whether the options select a line."""
        drivers, nodes = self.options.types, self.options.nodes
        return (not drivers or line.driver in drivers) and (not nodes or line.node in nodes)

    def tables(self) -> list[Table]:
        """One table; by driver also one of profiles and one of counters."""
        return usage_tables(self.found, self.options.by, wide=self.options.wide)

    def echo(self) -> None:
        """Print everything as JSON or YAML."""
        echo_value(usage_as_json(self.found, self.options.by), self.options.output)


def _of_cluster(raws: Iterable[dict[str, Any]], rules: Semantics) -> Snapshot:
    """The state of a cluster. Devices that are held for something count as held."""
    raws, held = split_held_room(raws)
    note_held_room(held)
    store = store_of(read_valid(raws), rules)
    hold_room(held, store)
    return store.snapshot_for(NOBODY)


def _show_contexts(
    connection: Connection, contexts: tuple[str, ...], options: TopOptions, rules: Semantics, console: Console
) -> None:
    """Print the devices of several clusters, each line with its context. Exits if one cannot be read."""
    reached = ask_each(connection, contexts, lambda one: list_objects(KINDS, one))
    views = [UsageView(options) for _ in reached]
    drivers, nodes = set[str](), set[str]()
    for one, view in zip(reached, views, strict=True):
        if one.found is not None:
            with remarks_on(one.context):
                snapshot = _of_cluster(one.found, rules)
                _note_unusable(snapshot)
            every = Gauge().lines(snapshot, options.by)
            drivers |= {line.driver for line in every}
            nodes |= {line.node for line in every} | {*snapshot.topology.nodes}
            view.take(every)
    if any(one.found is not None for one in reached):
        check_names("driver", options.types, drivers)
        check_names("node", options.nodes, nodes)
    if options.output in FOR_PEOPLE:
        parts = [
            (one.context, view.tables() if view.found else [])
            for one, view in zip(reached, views, strict=True)
        ]
        for number, table in enumerate(side_by_side(parts)):
            if number:
                console.print()
            print_table(console, table, wide=options.wide)
        for one, view in zip(reached, views, strict=True):
            if one.found is not None and not view.found:
                with remarks_on(one.context):
                    remark(f"note: {NO_DEVICES}")
    else:
        results = [
            usage_as_json(view.found, options.by) if one.found is not None else None
            for one, view in zip(reached, views, strict=True)
        ]
        echo_value(contexts_as_json(reached, results), options.output)
    report_unreached(reached)


async def _watch(
    connection: Connection, rules: Semantics, view: UsageView, console: Console, clock: Clock
) -> None:
    gauge = Gauge()

    async def measured(snapshot: Snapshot) -> Iterable[Line]:
        # In a thread, so that keys work: a large fleet takes seconds. A snapshot never changes.
        return await asyncio.to_thread(gauge.lines, snapshot, view.options.by)

    await watch_cluster(
        view,
        lambda show: follow_usage(connection, rules, show, view.options.interval),
        measured,
        connection,
        console,
        clock,
    )


class Gauge:
    """Measures one snapshot after another, and keeps what stays valid between them."""

    def __init__(self) -> None:
        self._solver = Solver(effort=MAX_CHOICES)
        self._layout: FleetLayout | None = None

    def lines(self, snapshot: Snapshot, by: By) -> list[Line]:
        """Return the usage of the devices."""
        if self._layout is None or self._layout.topology is not snapshot.topology:
            self._layout = fleet_layout(snapshot.topology)
        return lines(measure(self._layout, snapshot.occupancy, self._solver), by)


async def follow_usage(
    connection: Connection,
    rules: Semantics,
    show: Callable[[Snapshot], Awaitable[None]],
    interval: float,
) -> None:
    """Watch a cluster and show its state every `interval` seconds, until cancelled.

    Raises ReconcilerError or OSError if the first connection fails; later failures are retried.
    """
    store = Store(rules)
    async with connected(connection, announced=False) as client:
        served = await discover(client, also=KINDS)
        kinds = [kind for kind in KINDS if kind in served]
        room = FollowedRoom(client, connection.held_room)
        async with following(client, served, kinds, store.apply):
            while True:
                await room.hold(store)
                await show(store.snapshot_for(NOBODY))
                await asyncio.sleep(interval)
