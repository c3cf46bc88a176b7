"""`top` for the devices of a plugin: their usage by type, or by node and type."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, ClassVar

import click

from reconciler.cli.cluster import Connection, connected, following, from_cluster
from reconciler.cli.input import read_files
from reconciler.cli.options import Clock
from reconciler.cli.output import Console, Table
from reconciler.cli.top_view import TopOptions, TopView, check_names, watch_cluster
from reconciler.cluster.discovery import discover_at_least_pods
from reconciler.plugins.plugin import Plugin, Usage, UsageLine
from reconciler.state.trial import load

_HEADINGS = {"allocatable": "FREE"}
"""State -> its heading, as in the table of all devices"""


class PluginView(TopView[UsageLine]):
    """The lines of a plugin."""

    orders: ClassVar[Mapping[str, Callable[[Any], float]]] = {"devices": lambda one: -one.devices}

    def __init__(self, options: TopOptions, usage: Usage) -> None:
        super().__init__(options)
        self.usage = usage

    @property
    def by_node(self) -> bool:
        """Whether there is a line for each node and type."""
        return self.options.by == "node"

    def measured(self) -> list[UsageLine]:
        """The lines, sorted by name."""
        return list(self.usage.lines(nodes=self.by_node))

    def selected(self, line: UsageLine) -> bool:
        """Whether the options select a line."""
        types, nodes = self.options.types, self.options.nodes
        return (not types or line.kind in types) and (not nodes or line.node in nodes)

    def tables(self) -> list[Table]:
        """One table."""
        names = ("NODE", "TYPE") if self.by_node else ("TYPE",)
        numbers = ("DEVICES", *(_HEADINGS.get(state, state.upper()) for state in self.usage.states))
        made = Table((*names, *numbers, self.usage.extra), right=numbers, names=len(names))
        for one in self.found:
            own = (one.node, one.kind) if self.by_node else (one.kind,)
            made.add((*own, *map(str, (one.devices, *one.states)), one.extra))
        return [made]

    def value(self) -> dict[str, Any]:
        """All figures."""
        return {"by": "node" if self.by_node else "driver", "items": [one.value for one in self.found]}


def show_plugin(
    plugin: Plugin,
    connection: Connection,
    files: tuple[str, ...],
    options: TopOptions,
    console: Console,
    clock: Clock,
) -> None:
    """Show the devices of a plugin, of manifests or of a cluster. Raises ReconcilerError or OSError."""
    if options.by not in ("driver", "node"):
        raise click.UsageError(f"{plugin.title} have --by node, or --by driver for types.")
    if options.sort not in ("name", *PluginView.orders):
        raise click.UsageError(f"{plugin.title} can only be sorted by name or devices.")
    view = PluginView(options, plugin.usage())

    async def measured(_: Usage) -> Iterable[UsageLine]:
        return view.measured()

    async def once(_: Usage) -> None:
        _check(view)
        view.take(view.measured())
        view.print_on(console)

    if files:
        bundle = read_files(files)
        load(view.usage, bundle.objects())
        _check(view)
        view.take(view.measured())
        view.print_on(console)
    elif options.live:
        from_cluster(
            watch_cluster(
                view,
                lambda show: follow(plugin, view.usage, connection, show, options.interval),
                measured,
                connection,
                console,
                clock,
            )
        )
    else:
        from_cluster(follow(plugin, view.usage, connection, once, None))


def _check(view: PluginView) -> None:
    check_names("type", view.options.types, {*view.usage.types})
    check_names("node", view.options.nodes, {one.node for one in view.usage.lines(nodes=True)})


async def follow(
    plugin: Plugin,
    usage: Usage,
    connection: Connection,
    show: Callable[[Usage], Awaitable[None]],
    interval: float | None,
) -> None:
    """Watch a cluster and show its state: once if `interval` is None, else repeatedly until cancelled.

    Raises ReconcilerError or OSError if the first connection fails; later failures are retried.
    """
    async with connected(connection, announced=interval is None) as client:
        served = await plugin.with_kinds(client, await discover_at_least_pods(client))
        kinds = ("Node", *(model.__name__ for model in plugin.models.values()), "Pod")
        async with following(client, served, kinds, usage.apply):
            await show(usage)
            while interval is not None:
                await asyncio.sleep(interval)
                await show(usage)
