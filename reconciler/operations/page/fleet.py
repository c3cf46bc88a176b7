"""The fleet in numbers: devices by driver and state, and all nodes."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from msgspec import Struct

from reconciler.analysis.capacity.grouping import of_sets
from reconciler.operations.metrics.catalogue import OTHER
from reconciler.operations.metrics.devices import STATES, Holdings
from reconciler.operations.page.charts import Charts
from reconciler.operations.page.heat import troubles, use_of
from reconciler.operations.page.parts import Area, Panel, Part
from reconciler.operations.page.query import Query, named_by, select_charts, shown
from reconciler.operations.page.sources import Sources
from reconciler.state.devices.readiness import offered
from reconciler.state.devices.snapshot import Snapshot


class FleetPanel(Panel):
    """Filters do not change it."""

    id: ClassVar[str] = "fleet"
    area: ClassVar[Area] = "who"
    title: ClassVar[str] = "Fleet"

    async def parts(self, query: Query) -> list[Part]:
        values: dict[str, object] = {"ready": self.sources.ready(), "filtered": query.filtered}
        badge = ""
        if values["ready"]:
            await self.sources.capacity.refresh()
            rows = driver_rows(self.sources.capacity.holdings, query)
            values["drivers"] = rows
            badge = str(sum(row.total for row in rows))
        return [self.renderer.part(self.id, "fleet.html", values, badge=badge)]


BAR = 200.0


class DriverRow(Struct, frozen=True):
    """A driver in the table."""

    name: str
    url: str
    counts: tuple[int, ...]
    """By state, in the order of STATES"""
    total: int
    bar: tuple[tuple[str, float, float], ...]
    """State, start and length"""


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


class NodesPanel(Panel):
    """A table of nodes, those with trouble first, then the busiest."""

    id: ClassVar[str] = "nodes"
    area: ClassVar[Area] = "lists"
    title: ClassVar[str] = "Nodes"

    async def parts(self, query: Query) -> list[Part]:
        values: dict[str, object] = {"ready": self.sources.ready(), "nodes": None}
        badge = ""
        if values["ready"]:
            charts = await self.index.charts()
            snapshot = self.sources.snapshot()
            if charts.fleet() is snapshot.fleet:
                nodes = node_list(query, snapshot, charts, self.sources)
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
    trouble: str
    """In words; empty for none"""
    used: int
    """Percent, the mean of its physical devices; -1 without any"""
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


def node_list(query: Query, snapshot: Snapshot, charts: Charts, sources: Sources) -> NodeList:
    """The nodes of a query."""
    fleet, occupancy = snapshot.fleet, snapshot.occupancy
    names = sorted(node_names(snapshot))
    position = {name: at for at, name in enumerate(names)}
    size = len(names)  # also the group of devices that are not local
    place = np.array([*(position.get(name, size) for name in fleet.vocabulary.nodes.values), size])
    node_of = place[fleet.codes["node"]]
    used, counted = use_of(snapshot), offered(snapshot.topology)
    of_physical = used.of(of_sets(node_of, fleet, mixed=size), node_of)
    use, count = (np.bincount(of_physical, weights=one, minlength=size + 1) for one in (used.use, None))
    mean = np.divide(use, count, out=np.full(size + 1, -1.0), where=count > 0)
    devices = np.bincount(node_of[counted], minlength=size + 1)
    held = np.bincount(node_of[counted & (occupancy.held | occupancy.sharing)], minlength=size + 1)
    found = troubles(snapshot, used, node_of, size + 1, mixed=size)
    wanted = np.ones(size, dtype=np.bool_)
    if query.node:
        wanted[:] = False
        wanted[[position[name] for name in named_by(query.node, names)]] = True
    if query.driver or query.claim or query.cell:
        matching = np.zeros(size + 1, dtype=np.bool_)
        selected = select_charts(query.without_node, charts, snapshot, sources)
        matching[node_of[charts.rows[np.isin(charts.chart_of_row, selected)]]] = True
        wanted &= matching[:size]
    order = np.flatnonzero(wanted)
    ranks = [-of[order] for of in (*found, mean, (devices > 0).astype(np.intp))]
    order = order[np.lexsort((order, *reversed(ranks)))]
    pages = max(-(-len(order) // NODES_A_PAGE), 1)
    page = min(query.nodes, pages)
    rows = tuple([
        NodeRow(
            shown(names[at]),
            query.narrowed(node=names[at]),
            found.told(at),
            int(mean[at] * 100) if mean[at] >= 0 else -1,
            int(held[at]),
            int(devices[at]),
        )
        for at in order[(page - 1) * NODES_A_PAGE : page * NODES_A_PAGE].tolist()
    ])  # fmt: skip
    return NodeList(rows, page, pages, len(order), size, int(devices[size]))
