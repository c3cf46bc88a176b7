"""What else `top` shows: the learnt demand, gangs with what they wait for, and the devices of a plugin."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, ClassVar

import click

from reconciler.allocation.gangs.kinds import GangGranted
from reconciler.api.manifests.bundle import Bundle, Claims
from reconciler.api.manifests.inferred_nodes import supply_of
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.core import ConfigMap, Node
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.validating import validated
from reconciler.cli import cluster
from reconciler.cli.connection import Connection
from reconciler.cli.exits import NoAnswer
from reconciler.cli.explain_cluster import gang_now, intake_of, planners
from reconciler.cli.input import read_files
from reconciler.cli.options import FOR_PEOPLE, Clock
from reconciler.cli.output import Console, Table, echo_value, print_table, remark
from reconciler.cli.top_tables import TopOptions, TopView, check_names
from reconciler.cluster.discovery import discover_at_least_pods
from reconciler.cluster.kinds import config_map
from reconciler.control.demand import COMPARED, DEMAND, Kept, read_kept
from reconciler.control.gangs.planner import GangLine, GangOverview, GiveBack, UngateAll
from reconciler.control.handler import Blocked
from reconciler.control.intake import Intake
from reconciler.errors import Gone
from reconciler.operations.page.sources import PolicyRow
from reconciler.operations.policy_comparison import read_comparison, shares
from reconciler.plugins.plugin import Plugin, Usage, UsageLine
from reconciler.state.trial import load


def show_demand(
    name: str, files: tuple[str, ...], connection: Connection, console: Console, output: str
) -> None:
    """Print what a ConfigMap holds, once.

    Raises NoAnswer if there is nothing, ReconcilerError and OSError if it cannot be read.
    """
    namespace, slash, last = name.partition("/")
    if files or not slash or not namespace or not last:
        raise click.UsageError(
            "--demand needs NAMESPACE/NAME of a ConfigMap, and a cluster instead of files."
        )
    key = ObjectKey(namespace, last)
    found = cluster.from_cluster(_read(key, connection))
    if DEMAND not in found.data:
        raise NoAnswer(f"ConfigMap {key} holds no demand yet: the leader writes it once a minute")
    kept, refused = read_kept(found.data, f"ConfigMap {key}")
    for problem in refused:
        remark(f"warning: {problem}")
    samples, rows = _compared(found)
    if output in FOR_PEOPLE:
        _print(kept, samples, rows, console, wide=output == "wide")
    else:
        echo_value(_as_json(kept, samples, rows), output)


def _compared(found: ConfigMap) -> tuple[int, tuple[PolicyRow, ...]]:
    if COMPARED not in found.data:
        return 0, ()
    try:
        return read_comparison(found.data[COMPARED])
    except ValueError as exc:
        remark(f"warning: ConfigMap {found.key}: {COMPARED}: {exc}")
        return 0, ()


def _print(kept: Kept, samples: int, rows: tuple[PolicyRow, ...], console: Console, *, wide: bool) -> None:
    demand = Table(("DEMAND", "SHARE"), right=("SHARE",))
    for words, share in shares(kept.demand):
        demand.add((words, f"{100 * share:.1f}%"))
    print_table(console, demand, wide=wide)
    if rows:
        counts = ("SAME", "OTHER DEVICES", "OTHER NODE", "PLACES LOST")
        policies = Table(("POLICY", "USED", *counts), right=counts)
        for row in rows:
            used = "yes" if row.used else "-"
            numbers = (row.same, row.other_devices, row.other_node, f"{row.lost:.2f}")
            policies.add((row.name, used, *map(str, numbers)))
        console.print()
        print_table(console, policies, wide=wide)
    console.print(f"{samples} sampled decisions were repeated with each policy")


def _as_json(kept: Kept, samples: int, rows: tuple[PolicyRow, ...]) -> dict[str, Any]:
    return {
        "at": kept.at.isoformat() if kept.at is not None else None,
        "demand": [{"shape": words, "share": round(share, 4)} for words, share in shares(kept.demand)],
        "samples": samples,
        "policies": [
            {
                "policy": row.name,
                "used": row.used,
                "same": row.same,
                "otherDevices": row.other_devices,
                "otherNode": row.other_node,
                "placesLost": row.lost,
            }
            for row in rows
        ],
    }


async def _read(key: ObjectKey, connection: Connection) -> ConfigMap:
    async with cluster.connected(connection) as client:
        try:
            return validated(ConfigMap, await client.get(config_map(key), key))
        except Gone as exc:
            raise NoAnswer(f"there is no ConfigMap {key}; name that of demand_config_map") from exc


GangRow = tuple[GangLine, str, str]
"""A gang, the reason why it is pending, and a message"""
NO_GANGS = "there are no gangs"
FITS, UNGATED = "can be placed now", "its gates are being removed"
GIVEN_BACK = "is partly written and will be given back"


def show_gangs(
    connection: Connection, files: tuple[str, ...], rules: Semantics, output: str, console: Console
) -> None:
    """Print the gangs once. Raises ReconcilerError or OSError."""
    bundle = read_files(files) if files else None
    rows = cluster.from_cluster(_gang_rows(bundle, connection, rules))
    if output not in FOR_PEOPLE:
        echo_value({"gangs": [_gang_as_json(*row) for row in rows]}, output)
    elif rows:
        print_table(console, _gangs_table(rows), wide=output == "wide")
    else:
        console.print(NO_GANGS)


async def _gang_rows(bundle: Bundle | None, connection: Connection, rules: Semantics) -> list[GangRow]:
    if bundle is None:
        raws, held = cluster.split_held_room(
            await cluster.list_objects(cluster.KINDS, connection, volumes=True)
        )
        cluster.note_held_room(held)
        intake = intake_of(raws, rules, held)
    else:
        intake = intake_of((), rules)
        claims = Claims(bundle, rules)
        supply = [*bundle.of(Node), *supply_of(bundle)]
        for thing in (*supply, *map(claims.typed, claims.entries), *claims.pods):
            intake.take(Changed(type(thing).__name__, thing))
    return list(_gangs(intake))


def _gangs(intake: Intake) -> Iterable[GangRow]:
    """The waiting gangs first."""
    overview, (_, planner) = GangOverview(intake), planners(intake)
    waiting, others = overview.keys()
    for gang in (*waiting, *others):
        line = overview.line(gang)
        if line is None:
            continue
        match gang_now(gang, planner, intake) if line.waits else None:
            case Blocked(reason=reason, message=message):
                yield line, reason, message
            case GangGranted():
                yield line, "", FITS
            case GiveBack(why=why):
                yield line, "", f"{GIVEN_BACK}: {why}"
            case UngateAll():
                yield line, "", UNGATED
            case _:
                yield line, "", ""


def _gangs_table(rows: Iterable[GangRow]) -> Table:
    headings = ("GANG", "SOURCE", "SIZE", "BOUND", "RELEASED", "GATED", "DOMAIN", "PENDING")
    table = Table(headings, right=("SIZE", "BOUND", "RELEASED", "GATED"))
    for line, reason, message in rows:
        table.add(
            (
                str(line.gang),
                str(line.gang.source),
                "?" if line.least is None else str(line.least),
                str(line.bound),
                str(line.released),
                str(line.gated),
                ", ".join(f"{key}={value}" for key, value in line.domain) or "-",
                ": ".join(filter(None, (reason, message))) or "-",
            )
        )
    return table


def _gang_as_json(line: GangLine, reason: str, message: str) -> Mapping[str, Any]:
    return {
        "namespace": line.gang.namespace,
        "name": line.gang.name,
        "source": str(line.gang.source),
        "size": line.least,
        "bound": line.bound,
        "released": line.released,
        "gated": line.gated,
        "nodes": line.nodes,
        "domain": dict(line.domain),
        "reason": reason,
        "message": message,
    }


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

    async def once(_: Usage | None = None) -> None:
        _check(view)
        view.take(view.measured())
        view.print_on(console)

    if files:
        load(view.usage, read_files(files).objects())
        asyncio.run(once())
    elif options.live:
        from reconciler.cli.top_screen import watch_cluster  # noqa: PLC0415 - it needs rich's screen and the log

        cluster.from_cluster(
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
        cluster.from_cluster(follow(plugin, view.usage, connection, once, None))


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
    async with cluster.connected(connection, announced=interval is None) as client:
        served = await plugin.with_kinds(client, await discover_at_least_pods(client))
        kinds = ("Node", *(model.__name__ for model in plugin.models.values()), "Pod")
        async with cluster.following(client, served, kinds, usage.apply):
            await show(usage)
            while interval is not None:
                await asyncio.sleep(interval)
                await show(usage)
