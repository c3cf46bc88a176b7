"""The fleet in numbers, devices by driver and state, all nodes, and the heat map of their use."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from kernels.types import Codes, Rows
from reconciler.analysis.capacity import use as usage
from reconciler.analysis.capacity.layout import tainted_devices
from reconciler.operations.metrics.catalogue import OTHER
from reconciler.operations.metrics.devices import STATES, Holdings, state_masks
from reconciler.operations.page.charts import Charts
from reconciler.operations.page.parts import Panel, Part
from reconciler.operations.page.query import NO_GROUP, Query, named_by, rows_of_cell, select_charts, shown
from reconciler.operations.page.sources import Sources
from reconciler.state.devices.readiness import offered, readiness
from reconciler.state.devices.snapshot import Snapshot

LEVELS = ("unused", "up to 1/3", "up to 2/3", "more than 2/3", "all full")
MOST_CELLS = 600
"""Cells that are shown; more are not looked at one by one"""


def use_of(snapshot: Snapshot) -> usage.PhysicalUse:
    """The use of all physical devices of the fleet."""
    occupancy, counted = snapshot.occupancy, offered(snapshot.topology)
    taken = (occupancy.held | occupancy.sharing) & counted
    return usage.physical_use(snapshot.fleet, counted, taken, occupancy.free & counted, occupancy.left)


class Troubles(NamedTuple):
    """What is wrong in each of G groups, the worst first."""

    over: Rows
    """(G,) counter sets that are over-committed"""
    broken: Rows
    """(G,) pools that cannot be used"""
    tainted: Rows
    """(G,) devices with a taint that needs a toleration"""
    stranded: Rows
    """(G,) physical devices that are full although a part of them is not held. Common, so cells ignore it"""

    def told(self, group: int) -> str:
        """In words; empty if there is none."""
        words = (
            ("over-committed counter set", "over-committed counter sets"),
            ("pool cannot be used", "pools cannot be used"),
            ("device tainted", "devices tainted"),
            ("full with a stranded rest", "full with a stranded rest"),
        )
        counts = [int(of[group]) for of in self]
        told = [f"{n} {one if n == 1 else many}" for n, (one, many) in zip(counts, words, strict=True) if n]
        return "; ".join(told)


def troubles(
    snapshot: Snapshot, used: usage.PhysicalUse, of_device: Rows, size: int, *, mixed: int = 0
) -> Troubles:
    """The trouble of each group; `of_device` (D,) is the group of each device, below `size`. Counter sets of
    devices of several groups are in the group `mixed`.
    """
    fleet, topology = snapshot.fleet, snapshot.topology
    of_set = usage.of_sets(of_device, fleet, mixed=mixed)
    over = (snapshot.occupancy.left < 0).any(axis=1)
    broken = fleet.start[[at for at in readiness(topology).problems if fleet.pools[at].size]]
    tainted = offered(topology) & tainted_devices(fleet, topology.rules)
    stranded = used.full & (used.use < 1)
    groups = (of_set[over], of_device[broken], of_device[tainted], used.of(of_set, of_device)[stranded])
    return Troubles(*(np.bincount(one, minlength=size) for one in groups))


class Cell(Struct, frozen=True):
    """A group of devices."""

    name: str
    url: str
    """Opens it; closes it if it is open"""
    level: int
    """Position in LEVELS"""
    use: int
    """Percent"""
    about: str
    """In words"""
    trouble: str
    is_open: bool


class HeatPanel(Panel, part="heat", area="top", title="Heat map"):
    """Filters do not change it, but it keeps them."""

    async def parts(self, query: Query) -> list[Part]:
        if not self.sources.ready():
            return [self.renderer.part(self.id, "heat.html", {"ready": False})]
        snapshot = self.sources.snapshot()
        by = usage.chosen(query.by, snapshot.topology)
        used, groups = use_of(snapshot), usage.groups_of(by, snapshot.topology)
        cells = sorted(_cells(query, by, snapshot, used, groups), key=lambda cell: _natural(cell.name))
        values: dict[str, object] = {
            "ready": True,
            "by": title(by),
            "choices": [
                (title(one), "" if one == by else query.narrowed(at=self.id, by=one, cell=""))
                for one in usage.choices(snapshot.topology)
            ],
            "cells": cells[:MOST_CELLS],
            "hidden": len(cells[MOST_CELLS:]),
            "levels": LEVELS,
            "open": next((cell for cell in cells if cell.is_open), None),
            "states": _states(query, snapshot) if query.cell else (),
            "physical": len(used.use),
            "full": int(used.full.sum()),
        }
        return [self.renderer.part(self.id, "heat.html", values, badge=str(len(cells)))]


def title(by: str) -> str:
    """What devices are grouped by, as `top` heads its column."""
    return by.removeprefix(usage.LABEL).rpartition("/")[2]


def _cells(
    query: Query, by: str, snapshot: Snapshot, used: usage.PhysicalUse, groups: usage.Groups
) -> Iterator[Cell]:
    size, fleet = len(groups.names), snapshot.fleet
    of = used.of(usage.of_sets(groups.of, fleet), groups.of)
    physical, full, use = (
        np.bincount(of, weights=one, minlength=size) for one in (None, used.full, used.use)
    )
    devices = np.bincount(groups.of[offered(snapshot.topology)], minlength=size)
    found = troubles(snapshot, used, groups.of, size)
    part = use / np.maximum(physical, 1)
    levels = _levels(part, full, physical).tolist()
    serious = found._replace(stranded=np.zeros(size, dtype=np.intp))
    for at, name in enumerate(groups.names):
        trouble = serious.told(at)
        if not physical[at] and not trouble:
            continue
        key = name or NO_GROUP
        is_open = query.cell == key
        percent = int(part[at] * 100)
        about = f"use {percent} %, {int(full[at])} of {int(physical[at])} physical devices full"
        yield Cell(
            name=shown(name) or f"no {title(by)}",
            url=query.narrowed(at="heat", by=by, cell="" if is_open else key),
            level=levels[at],
            use=percent,
            about=f"{about}, {int(devices[at])} devices",
            trouble=trouble,
            is_open=is_open,
        )


def _levels(part: np.ndarray, full: np.ndarray, physical: np.ndarray) -> Codes:
    """(n,) position in LEVELS of groups with a part from 0 to 1 in use, of which so many are full."""
    by_part = np.where(part <= 0, 0, np.minimum(1 + np.floor(part * 3), 3))
    return np.where((full == physical) & (physical > 0), 4, by_part).astype(np.int32)


def _states(query: Query, snapshot: Snapshot) -> list[tuple[str, int]]:
    """State and number of the devices of the open cell."""
    rows = np.flatnonzero(offered(snapshot.topology) & rows_of_cell(query, snapshot))
    tainted = tainted_devices(snapshot.fleet, snapshot.rules, rows)
    masks = state_masks(snapshot.occupancy, rows, tainted)
    return [(state, int(mask.sum())) for state, mask in zip(STATES, masks, strict=True)]


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts rack-2 before rack-10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]{1,18})", name)]


class FleetPanel(Panel, part="fleet", area="who", title="Fleet"):
    """Filters do not change it."""

    async def parts(self, query: Query) -> list[Part]:
        values: dict[str, object] = {"ready": self.sources.ready(), "filtered": query.filtered}
        badge = ""
        if values["ready"]:
            await self.sources.capacity.refresh()
            rows = list(_drivers(self.sources.capacity.holdings, query))
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


def _drivers(holdings: Holdings, query: Query) -> Iterator[DriverRow]:
    for driver, states in holdings.devices.items():
        counts = tuple(states.get(state, 0) for state in STATES)
        url = "" if driver == OTHER else query.narrowed(driver=driver)
        yield DriverRow(shown(driver), url, counts, sum(counts), bar(counts))


def bar(counts: Sequence[int], states: Sequence[str] = STATES) -> tuple[tuple[str, float, float], ...]:
    """State, start and length of each piece of a bar; `counts` in the order of `states`."""
    total, at, made = sum(counts), 0.0, []
    for state, count in zip(states, counts, strict=True):
        if count:
            made.append((state, at, BAR * count / total))
            at += BAR * count / total
    return tuple(made)


class NodesPanel(Panel, part="nodes", area="lists", title="Nodes"):
    """A table of nodes, those with trouble first, then the busiest."""

    async def parts(self, query: Query) -> list[Part]:
        values: dict[str, Any] = {"ready": self.sources.ready(), "nodes": None}
        badge = ""
        if values["ready"]:
            charts = await self.index.charts()
            snapshot = self.sources.snapshot()
            if charts.fleet() is snapshot.fleet:
                values |= node_list(query, snapshot, charts, self.sources)
                badge = str(values["nodes"]["selected"])
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


def node_names(snapshot: Snapshot) -> set[str]:
    """The nodes of the cluster, and those that only slices name."""
    named_by_slices = (node for pool in snapshot.fleet.pools for node in pool.nodes or ())
    return {*snapshot.topology.order, *named_by_slices}


def node_list(query: Query, snapshot: Snapshot, charts: Charts, sources: Sources) -> dict[str, Any]:
    """One page of the nodes that match the filters, and the devices that are not local to one node."""
    fleet, occupancy = snapshot.fleet, snapshot.occupancy
    names = sorted(node_names(snapshot))
    position = {name: at for at, name in enumerate(names)}
    size = len(names)  # also the group of devices that are not local
    place = np.array([*(position.get(name, size) for name in fleet.vocabulary.nodes.values), size])
    node_of = place[fleet.codes["node"]]
    used, counted = use_of(snapshot), offered(snapshot.topology)
    of_physical = used.of(usage.of_sets(node_of, fleet, mixed=size), node_of)
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
    rows = [
        NodeRow(
            name=shown(names[at]),
            url=query.narrowed(node=names[at]),
            trouble=found.told(at),
            used=int(mean[at] * 100) if mean[at] >= 0 else -1,
            held=int(held[at]),
            devices=int(devices[at]),
        )
        for at in order[(page - 1) * NODES_A_PAGE : page * NODES_A_PAGE].tolist()
    ]
    start = (page - 1) * NODES_A_PAGE
    return {
        "nodes": {"rows": rows, "selected": len(order), "all": size, "elsewhere": int(devices[size])},
        "shown": f"{start + 1} to {start + len(rows)}",
        "pager": query.pager("nodes", pages, "nodes"),
    }
