"""The fleet in numbers: devices by driver and state, the use of every chart as squares, and all nodes."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kernels.types import Codes, Mask, Rows
from reconciler.operations.metrics.catalogue import OTHER
from reconciler.operations.metrics.devices import STATES, Holdings
from reconciler.operations.page.charts import Charts, Used
from reconciler.operations.page.parts import Area, Panel, Part
from reconciler.operations.page.query import Query, named_by, select_charts, shown
from reconciler.state.devices.snapshot import Snapshot


class FleetPanel(Panel):
    """Filters do not change it."""

    id: ClassVar[str] = "fleet"
    area: ClassVar[Area] = "top"
    title: ClassVar[str] = "Fleet"

    async def parts(self, query: Query) -> list[Part]:
        values: dict[str, object] = {"ready": self.sources.ready(), "filtered": query.filtered}
        badge = ""
        if values["ready"]:
            await self.sources.capacity.refresh()
            rows = driver_rows(self.sources.capacity.holdings, query)
            used = await self.index.used()
            values["drivers"] = rows
            values["use_map"] = use_map(used[1]) if used is not None else None
            badge = str(sum(row.total for row in rows))
        return [self.renderer.part(self.id, "fleet.html", values, badge=badge)]


BAR = 200.0
LEVELS = ("unused", "up to 1/3", "up to 2/3", "more than 2/3", "full")
MOST_SQUARES = 2000
"""Squares of the overview; with more charts, each square is the mean of several"""
SQUARE = 12


class DriverRow(Struct, frozen=True):
    """A driver in the table."""

    name: str
    url: str
    counts: tuple[int, ...]
    """By state, in the order of STATES"""
    total: int
    bar: tuple[tuple[str, float, float], ...]
    """State, start and length"""


class UseMap(Struct, frozen=True):
    """All charts as squares, coloured by use."""

    summary: str
    width: int
    height: int
    levels: tuple[str, ...]
    """A path for each level"""
    names: tuple[tuple[str, int], ...]
    """Level and number of charts"""


def driver_rows(holdings: Holdings, query: Query) -> list[DriverRow]:
    """A row for each driver."""
    made = []
    for driver, states in holdings.devices.items():
        counts = tuple(states.get(state, 0) for state in STATES)
        url = "" if driver == OTHER else query.narrowed(driver=driver)
        made.append(DriverRow(shown(driver), url, counts, sum(counts), bar(counts)))
    return made


def bar(counts: Sequence[int], states: Sequence[str] = STATES) -> tuple[tuple[str, float, float], ...]:
    """State, start and length of each piece of a bar; `counts` in the order of `states`."""
    total, at, made = sum(counts), 0.0, []
    for state, count in zip(states, counts, strict=True):
        if count:
            made.append((state, at, BAR * count / total))
            at += BAR * count / total
    return tuple(made)


def use_map(used: Used) -> UseMap | None:
    """How full the charts are. None without charts."""
    count = len(used.part)
    if not count:
        return None
    each = -(-count // MOST_SQUARES)
    starts = np.arange(0, count, each)
    means = np.add.reduceat(used.part, starts) / np.diff(np.append(starts, count))
    full = np.logical_and.reduceat(used.full, starts)
    columns = min(len(means), max(28, round((len(means) * 12) ** 0.5)))
    squares: list[list[str]] = [[] for _ in LEVELS]
    for at, one in enumerate(_levels(means, full).tolist()):
        row, column = divmod(at, columns)
        squares[one].append(f"M{column * SQUARE + 1} {row * SQUARE + 1}h10v10h-10z")
    what = "physical device or group of devices" if each == 1 else f"{each} physical devices or groups"
    counts = np.bincount(_levels(used.part, used.full), minlength=len(LEVELS)).tolist()
    summary = f"Each square {'is one' if each == 1 else 'stands for'} {what}"
    verb = "is" if counts[4] == 1 else "are"
    summary += f": {counts[4]} of {count} {verb} full, so that nothing more fits; {counts[0]} unused."
    paths = tuple(["".join(of_level) for of_level in squares])
    height = -(-len(means) // columns) * SQUARE
    return UseMap(summary, columns * SQUARE, height, paths, tuple(zip(LEVELS, counts, strict=True)))


def _levels(part: NDArray[np.float64], full: Mask) -> Codes:
    """(n,) position in LEVELS of parts from 0 to 1, and of what is full."""
    by_part = np.where(part <= 0, 0, np.minimum(1 + np.floor(part * 3), 3))
    return np.where(full, 4, by_part).astype(np.int32)


class NodesPanel(Panel):
    """A table of nodes, the busiest first."""

    id: ClassVar[str] = "nodes"
    area: ClassVar[Area] = "lists"
    title: ClassVar[str] = "Nodes"

    async def parts(self, query: Query) -> list[Part]:
        values: dict[str, object] = {"ready": self.sources.ready(), "nodes": None}
        badge = ""
        if values["ready"]:
            await self.sources.capacity.refresh()
            used = await self.index.used()
            snapshot = self.sources.snapshot()
            offered = self.sources.capacity.rows(snapshot.fleet)
            if used is not None and offered is not None:
                charts, parts = used
                selected = select_charts(query.without_node, charts, snapshot, self.sources)
                nodes = node_list(query, snapshot, charts, parts.part, offered, selected)
                badge = str(nodes.selected)
                first = (nodes.page - 1) * NODES_A_PAGE + 1
                values["nodes"] = nodes
                values["shown"] = f"{first} to {first + len(nodes.rows) - 1}"
                values["pager"] = query.pager("nodes", nodes.pages, self.id)
        return [self.renderer.part(self.id, "nodes.html", values, badge=badge)]


NODES_A_PAGE = 25
"""Nodes on one page"""


class NodeRow(Struct, frozen=True):
    """A node in the table."""

    name: str
    url: str
    used: int
    """Percent, the mean of its charts; -1 without charts"""
    held: int
    """Devices held exclusively or in shares"""
    devices: int


class NodeList(Struct, frozen=True):
    """One page of the nodes that match the filters."""

    rows: tuple[NodeRow, ...]
    page: int
    pages: int
    selected: int
    all: int
    elsewhere: int
    """Devices of the fleet that are not local to one node"""


def node_names(snapshot: Snapshot) -> set[str]:
    """The nodes of the cluster, and those that only slices name."""
    named_by_slices = (node for pool in snapshot.fleet.pools for node in pool.nodes or ())
    return {*snapshot.topology.order, *named_by_slices}


def node_list(
    query: Query,
    snapshot: Snapshot,
    charts: Charts,
    used: NDArray[np.float64],
    offered: Rows,
    selected: Rows,
) -> NodeList:
    """The nodes of a query.

    used     (charts,) used part of each chart
    offered  rows of the counted devices
    selected charts that match the filters by driver and claim
    """
    fleet, occupancy = snapshot.fleet, snapshot.occupancy
    names = sorted(node_names(snapshot))
    position = {name: at for at, name in enumerate(names)}
    size = len(names)
    use, count = np.zeros(size), np.zeros(size, dtype=np.intp)
    here = charts.node_of >= 0
    of_charts = np.array([position[name] for name in charts.nodes], dtype=np.intp)
    np.add.at(use, of_charts[charts.node_of[here]], used[here])
    np.add.at(count, of_charts[charts.node_of[here]], 1)
    mean = np.divide(use, count, out=np.full(size, -1.0), where=count > 0)
    place = np.array([*(position.get(name, -1) for name in fleet.vocabulary.nodes.values), -1], dtype=np.intp)
    node_of = place[fleet.codes["node"][offered]]
    local = node_of >= 0
    devices = np.bincount(node_of[local], minlength=size)
    in_use = (occupancy.held | occupancy.sharing)[offered]
    held = np.bincount(node_of[local & in_use], minlength=size)
    wanted = np.ones(size, dtype=np.bool_)
    if query.node:
        wanted[:] = False
        wanted[[position[name] for name in named_by(query.node, names)]] = True
    if query.driver or query.claim:
        local_charts = charts.node_of[selected]
        matching = np.zeros(size, dtype=np.bool_)
        matching[of_charts[local_charts[local_charts >= 0]]] = True
        wanted &= matching
    order = np.flatnonzero(wanted)
    order = order[np.lexsort((order, -devices[order].astype(bool).astype(np.intp), -mean[order]))]
    pages = max(-(-len(order) // NODES_A_PAGE), 1)
    page = min(query.nodes, pages)
    rows = tuple([
        NodeRow(
            shown(names[at]),
            query.narrowed(node=names[at]),
            int(mean[at] * 100) if mean[at] >= 0 else -1,
            int(held[at]),
            int(devices[at]),
        )
        for at in order[(page - 1) * NODES_A_PAGE : page * NODES_A_PAGE].tolist()
    ])  # fmt: skip
    return NodeList(rows, page, pages, len(order), size, len(offered) - int(devices.sum()))
