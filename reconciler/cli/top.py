"""`dra-reconciler top`: the usage of devices, live or once."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import Any

import click

from reconciler.analysis.capacity.lines import By
from reconciler.analysis.capacity.use import LABEL, held_under_taint
from reconciler.api.manifests.inferred_nodes import bundle_objects
from reconciler.api.objects.semantics import Semantics
from reconciler.api.plugins import PLUGINS
from reconciler.cli import cluster
from reconciler.cli import options as cli_options
from reconciler.cli.connection import Connection
from reconciler.cli.contexts import ask_each, check_contexts, contexts_as_json, report_unreached, side_by_side
from reconciler.cli.exits import NoAnswer, errors_as
from reconciler.cli.input import read_files, read_valid
from reconciler.cli.names import completing
from reconciler.cli.output import Console, echo_value, print_table, remark, remarks_on
from reconciler.cli.rule_options import rules_options
from reconciler.cli.top_tables import (
    NO_DEVICES,
    ORDERS,
    NamespaceView,
    StoreView,
    TopOptions,
    UsageView,
    check_names,
)
from reconciler.state.devices.readiness import readiness
from reconciler.state.store import Store
from reconciler.state.trial import store_of

KINDS = ("DeviceTaintRule", "Node", "ResourceSlice", "ResourceClaim")
SORTS = ("name", *dict.fromkeys((*ORDERS, *NamespaceView.orders)))
"""Values of `--sort`"""
GROUPINGS = ("driver", "pool", "node", "model", "namespace", LABEL)
"""Values of `--by`; a key follows the last one"""


def _grouping(_ctx: click.Context, _param: click.Parameter, value: By | None) -> By | None:
    if value is not None and value not in GROUPINGS[:-1] and value.removeprefix(LABEL) in ("", value):
        raise click.BadParameter(f"{value!r} is none of {', '.join(GROUPINGS)}KEY")
    return value


def _groupings(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    return [one for one in GROUPINGS if one.startswith(begun)]


@click.command()
@cli_options.cluster_options
@cli_options.contexts_option
@cli_options.held_room_option
@cli_options.files_option(required=False)
@cli_options.strict_option
@click.option(
    "--by",
    callback=_grouping,
    shell_complete=_groupings,
    metavar="[driver|pool|node|model|namespace|label=KEY]",
    help="Group by this, such as a label of nodes.  [default: driver; node with --node]",
)
@click.option("--driver", "drivers", multiple=True, metavar="NAME", help="Show only this driver.")
@click.option(
    "--node",
    "nodes",
    multiple=True,
    metavar="NAME",
    shell_complete=completing("Node"),
    help="Show only this node.",
)
@click.option("--sort", type=click.Choice(SORTS), default="name", show_default=True)
@click.option("--once", is_flag=True, help="Print once and exit; the default without a terminal.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=5.0,
    show_default=True,
    help="Seconds between updates.",
)
@cli_options.output_option(
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
@cli_options.pass_clock
def top(
    clock: cli_options.Clock,
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
      dra-reconciler top --by label=topology.kubernetes.io/zone
      dra-reconciler top --by namespace -f manifests/
    """
    check_contexts(connection, contexts, files, output)
    if gangs and (koordinator or by or drivers or nodes or sort != "name"):
        raise click.UsageError("--gangs has no --by, --driver, --node, --sort and --koordinator.")
    chosen: By = by or ("node" if nodes else "driver")
    if nodes and chosen not in ("node", "pool"):
        raise click.UsageError("--node needs --by node or --by pool.")
    if chosen == "namespace" and drivers:
        raise click.UsageError("--by namespace has no --driver: a claim may hold devices of several drivers.")
    console = Console(sys.stdout)
    live = (
        not (files or contexts or once or console.is_dumb_terminal)
        and console.is_terminal
        and output in cli_options.FOR_PEOPLE
    )
    options = TopOptions(chosen, drivers, nodes, sort, output, live=live, interval=interval)
    with errors_as(NoAnswer):
        if demand is not None:
            from reconciler.cli.top_extras import show_demand  # noqa: PLC0415

            show_demand(demand, files, connection, console, output)
            return
        if gangs:
            from reconciler.cli.top_extras import show_gangs  # noqa: PLC0415 - it needs what decides

            show_gangs(connection, files, rules, output, console)
            return
        if contexts:
            if koordinator:
                raise click.UsageError("--contexts does not show Koordinator's devices.")
            _show_contexts(connection, contexts, options, rules, console, clock)
            return
        if koordinator:
            # Late import: the other cases of `top` do not need it.
            from reconciler.cli.top_extras import show_plugin  # noqa: PLC0415

            plugin = next(one for one in PLUGINS if one.name == "koordinator")
            show_plugin(plugin, connection, files, options, console, clock)
            return
        view = _view(options, clock)
        if live:
            cluster.from_cluster(_watch(connection, rules, view, console, clock))
            return
        if files:
            store = store_of(bundle_objects(read_files(files)), rules)
        else:
            store = _of_cluster(cluster.from_cluster(cluster.list_objects(KINDS, connection)), rules)
        _check(options, [store])
        view.take(view.measuring(store)())
        view.print_on(console)
        for note in _notes(store):
            remark(note)


def _view(options: TopOptions, clock: cli_options.Clock) -> StoreView[Any]:
    by_namespace = options.by == "namespace"
    view: StoreView[Any] = NamespaceView(options, clock.now) if by_namespace else UsageView(options)
    if options.sort not in ("name", *view.orders):
        raise click.UsageError(f"--by {options.by} is sorted by name, {', '.join(view.orders)}.")
    return view


def _check(options: TopOptions, stores: Iterable[Store]) -> None:
    """Raise NoAnswer if none of these clusters has a driver, node or label that the options name."""
    drivers, nodes, labels = set[str](), set[str](), set[str]()
    for topology in (store.snapshot().topology for store in stores):
        drivers |= {pool.id.driver for pool in topology.fleet.pools}
        nodes |= {*topology.nodes, *topology.fleet.vocabulary.nodes.values}
        labels |= {label for node in topology.nodes.values() for label in node.labels}
    check_names("driver", options.types, drivers)
    check_names("node", options.nodes, nodes)
    if options.by.startswith(LABEL):
        check_names("label", [options.by.removeprefix(LABEL)], labels)


MOST_NOTES = 10


def _notes(store: Store) -> list[str]:
    """The pools whose devices are not counted, and why; and who holds devices that are to be left."""
    snapshot = store.snapshot()
    problems = readiness(snapshot.topology).problems
    notes = [
        f"note: pool {snapshot.fleet.pools[at].id} cannot be used: {problems[at]}"
        for at in list(problems)[:MOST_NOTES]
    ]
    if len(problems) > MOST_NOTES:
        notes.append(f"note: {len(problems) - MOST_NOTES} more pools cannot be used")
    return notes + [f"note: {held}" for held in islice(held_under_taint(snapshot), MOST_NOTES)]


def _of_cluster(raws: Iterable[dict[str, Any]], rules: Semantics) -> Store:
    """The state of a cluster."""
    raws, held = cluster.split_held_room(raws)
    cluster.note_held_room(held)
    store = store_of(read_valid(raws), rules)
    cluster.hold_room(held, store)
    return store


def _show_contexts(
    connection: Connection,
    contexts: tuple[str, ...],
    options: TopOptions,
    rules: Semantics,
    console: Console,
    clock: cli_options.Clock,
) -> None:
    """Print the devices of several clusters, each line with its context. Exits if one cannot be read."""
    reached = ask_each(connection, contexts, lambda one: cluster.list_objects(KINDS, one))
    views = [_view(options, clock) for _ in reached]
    stores = []
    for one, view in zip(reached, views, strict=True):
        if one.found is not None:
            with remarks_on(one.context):
                store = _of_cluster(one.found, rules)
                for note in _notes(store):
                    remark(note)
            stores.append(store)
            view.take(view.measuring(store)())
    if stores:
        _check(options, stores)
    if options.output in cli_options.FOR_PEOPLE:
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
            view.value() if one.found is not None else None for one, view in zip(reached, views, strict=True)
        ]
        echo_value(contexts_as_json(reached, results), options.output)
    report_unreached(reached)


async def _watch(
    connection: Connection, rules: Semantics, view: StoreView[Any], console: Console, clock: cli_options.Clock
) -> None:
    async def measured(store: Store) -> Iterable[Any]:
        refused = [f"refused: {reason}" for reason in islice(store.refused.values(), MOST_NOTES)]
        view.notes = [*refused, *cluster.held_room_notes(store.nominations), *_notes(store)]
        # In a thread, so that keys work: a large fleet takes seconds.
        return await asyncio.to_thread(view.measuring(store))

    from reconciler.cli.top_screen import watch_cluster  # noqa: PLC0415 - it needs rich's screen and the log

    await watch_cluster(
        view,
        lambda show: follow_usage(connection, rules, show, view.options.interval),
        measured,
        connection,
        console,
        clock,
    )


async def follow_usage(
    connection: Connection, rules: Semantics, show: Callable[[Store], Awaitable[None]], interval: float
) -> None:
    """Watch a cluster and show its state every `interval` seconds, until cancelled.

    Raises ReconcilerError or OSError if the first connection fails; later failures are retried.
    """
    from reconciler.cluster.discovery import discover  # noqa: PLC0415 - slow, and only for clusters

    store = Store(rules)
    async with cluster.connected(connection, announced=False) as client:
        served = await discover(client, also=KINDS)
        kinds = [kind for kind in KINDS if kind in served]
        room = cluster.FollowedRoom(client, connection.held_room)
        async with cluster.following(client, served, kinds, store.apply):
            while True:
                await room.hold(store)
                await show(store)
                await asyncio.sleep(interval)
