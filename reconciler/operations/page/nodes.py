"""All nodes, the busiest first: the use of their local charts, and their devices."""

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kernels.types import Rows
from reconciler.operations.page.charts import Charts
from reconciler.operations.page.filtering import named
from reconciler.operations.page.names import shown
from reconciler.operations.page.query import Query
from reconciler.state.devices.snapshot import Snapshot

A_PAGE = 25
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
        wanted[[position[name] for name in named(query.node, names)]] = True
    if query.driver or query.claim:
        local_charts = charts.node_of[selected]
        matching = np.zeros(size, dtype=np.bool_)
        matching[of_charts[local_charts[local_charts >= 0]]] = True
        wanted &= matching
    order = np.flatnonzero(wanted)
    order = order[np.lexsort((order, -devices[order].astype(bool).astype(np.intp), -mean[order]))]
    pages = max(-(-len(order) // A_PAGE), 1)
    page = min(query.nodes, pages)
    rows = tuple([
        NodeRow(
            shown(names[at]),
            query.narrowed(node=names[at]),
            int(mean[at] * 100) if mean[at] >= 0 else -1,
            int(held[at]),
            int(devices[at]),
        )
        for at in order[(page - 1) * A_PAGE : page * A_PAGE].tolist()
    ])  # fmt: skip
    return NodeList(rows, page, pages, len(order), size, len(offered) - int(devices.sum()))
