"""`dra-reconciler top --koordinator`: the usage of Koordinator's devices."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import click

from reconciler.api.objects.core import Node, Pod
from reconciler.cli.cluster import Connection
from reconciler.cli.input import read_files
from reconciler.cli.options import Clock
from reconciler.cli.output import Console, Table, echo_value
from reconciler.cli.top_view import TopOptions, TopView, check_names, exit_if_invalid, watch_cluster
from reconciler.cli.views import koordinator_machines as machines
from reconciler.plugins.koordinator.figures import Tally
from reconciler.plugins.koordinator.fleet import Fleet
from reconciler.plugins.koordinator.names import TYPES
from reconciler.plugins.koordinator.objects import Device
from reconciler.plugins.koordinator.rules import Semantics

SEMANTICS = Semantics.PROPOSAL


class MachineView(TopView[Tally]):
    """The usage of Koordinator's devices by type, or by node and type."""

    orders: ClassVar[Mapping[str, Callable[[Any], float]]] = {"devices": lambda one: -one.devices}

    @property
    def by(self) -> machines.By:
        """How lines are grouped."""
        return "node" if self.options.by == "node" else "driver"

    def selected(self, line: Tally) -> bool:
        """Whether the options select a line."""
        types, nodes = self.options.types, self.options.nodes
        return (not types or line.kind in types) and (not nodes or line.node in nodes)

    def tables(self) -> list[Table]:
        """One table."""
        return [machines.table(self.found, self.by)]

    def echo(self) -> None:
        """Print everything as JSON or YAML."""
        echo_value(machines.as_json(self.found, self.by), self.options.output)


def show_machines(
    connection: Connection, files: tuple[str, ...], options: TopOptions, console: Console, clock: Clock
) -> None:
    """Show Koordinator's devices, of manifests or of a cluster. Raises ReconcilerError or OSError."""
    if options.by == "pool":
        raise click.UsageError(
            "Koordinator's devices have no pools: use --by node, or --by driver for types."
        )
    if options.sort not in ("name", *MachineView.orders):
        raise click.UsageError("Koordinator's devices can only be sorted by name or devices.")
    view = MachineView(options)

    async def measured(fleet: Fleet) -> Iterable[Tally]:
        return machines.tallies(fleet, view.by)

    if files:
        bundle = read_files(files)
        objects = (*bundle.of(Node), *bundle.of(Device), *bundle.of(Pod))
        fleet = machines.fleet_of(objects, SEMANTICS)
        _check(options, fleet)
        view.take(machines.tallies(fleet, view.by))
        view.print_on(console)
        exit_if_invalid(bundle)
    elif options.live:
        asyncio.run(
            watch_cluster(
                view,
                lambda show: machines.follow_machines(connection, SEMANTICS, show, options.interval),
                measured,
                connection,
                console,
                clock,
            )
        )
    else:

        async def once(fleet: Fleet) -> None:
            _check(options, fleet)
            view.take(await measured(fleet))
            view.print_on(console)

        asyncio.run(machines.follow_machines(connection, SEMANTICS, once, None))


def _check(options: TopOptions, fleet: Fleet) -> None:
    check_names("type", options.types, {*TYPES})
    check_names("node", options.nodes, {one.node for one in machines.tallies(fleet, "node")})
