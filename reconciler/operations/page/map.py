"""The map: a chart of every counter set and group of devices, page by page.

No snapshot is kept across an await: while a snapshot is referenced, every change of an allocation copies its
columns.
"""

import asyncio
import re
from collections import Counter, OrderedDict
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from markupsafe import Markup
from msgspec import Struct

from reconciler.operations.page.charts import Chart, Index, Scene, scene
from reconciler.operations.page.drawing import Drawing, draw
from reconciler.operations.page.parts import Panel, Part, Renderer, version_of
from reconciler.operations.page.query import Query, anchor, listed, select_charts, shown
from reconciler.operations.page.sources import Sources

A_PAGE = 24
"""Charts on one page"""
AT_ONCE = 8
"""Charts that are checked before the event loop may run other tasks; drawing one takes some milliseconds"""
KEPT = 256
"""Charts with cached HTML"""
MOST_UNASKED = 96
"""With more charts, a map that is not filtered is left out unless it is asked for: it is too long"""


class _Page(Struct, frozen=True):
    """The charts on one page of the map, and its position."""

    charts: tuple[Chart, ...]
    page: int
    pages: int
    selected: int
    """Charts that pass the filters"""
    all: int
    left_out: bool = False
    """Whether there are too many charts to draw them unasked"""


class _Drawn(NamedTuple):
    """The part of a chart."""

    part: Part
    plain: bool
    """Whether it is a chart of devices without counters"""


class MapPanel(Panel, part="map", area="map", title="Map", nested=True):
    """Charts that look as before are not drawn again."""

    def __init__(self, sources: Sources, renderer: Renderer, index: Index) -> None:
        super().__init__(sources, renderer, index)
        self._known: OrderedDict[str, tuple[Hashable, _Drawn]] = OrderedDict()
        self._drawn = 0
        """Number of charts drawn so far"""

    async def parts(self, query: Query) -> list[Part]:
        page = await self._page(query)
        charts = await self._charts(page, query)
        return [self._map(page, charts, query), *(chart.part for chart in charts)]

    async def _page(self, query: Query) -> _Page:
        if not self.sources.ready():
            return _Page((), 1, 1, 0, 0)
        charts = await self.index.charts()
        snapshot = self.sources.snapshot()
        if charts.fleet() is not snapshot.fleet:  # slices have just changed; the next call is correct
            return _Page((), 1, 1, 0, -1)
        selected = select_charts(query, charts, snapshot, self.sources)
        if len(selected) > MOST_UNASKED and not query.filtered and not query.page:
            return _Page((), 1, 1, len(selected), len(charts.all), left_out=True)
        pages = max(-(-len(selected) // A_PAGE), 1)
        page = min(max(query.page, 1), pages)
        here = selected[(page - 1) * A_PAGE : page * A_PAGE].tolist()
        return _Page(tuple([charts.all[at] for at in here]), page, pages, len(selected), len(charts.all))

    async def _charts(self, page: _Page, query: Query) -> list[_Drawn]:
        # Links keep the filters, so the HTML of a chart depends on them.
        links = query.narrowed()
        made = []
        for at, chart in enumerate(page.charts):
            before = self._drawn
            found = scene(chart, self.sources.snapshot())
            if found is not None:
                made.append(self._chart(found, query, links))
            if self._drawn > before or at % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)
        return made

    def _map(self, page: _Page, charts: Sequence[_Drawn], query: Query) -> Part:
        values = {
            "summary": _summary(page, query),
            "every": query.url(at=self.id, page=1) if page.left_out else "",
            **query.pager("page", page.pages, self.id),
        }
        version = version_of(repr((values, [chart.part.id for chart in charts])))
        of_sets = [chart.part.html for chart in charts if not chart.plain]
        plain = [chart.part.html for chart in charts if chart.plain]
        html = self.renderer.env.get_template("map.html").render(
            map={**values, "sets": of_sets, "plain": plain}, version=version
        )
        return Part(self.id, version, Markup(html), str(page.selected))

    def _chart(self, found: Scene, query: Query, links: str) -> _Drawn:
        chart = found.chart
        start = int(chart.rows[0]) if chart.set < 0 else -1
        name = anchor(chart.pool, chart.name, start)
        key = f"{name} {links}"
        before = self._known.get(key)
        if before is not None and before[0] == found.fingerprint:
            self._known.move_to_end(key)
            return before[1]
        self._drawn += 1
        part = self.renderer.part(name, "chart.html", chart_values(found, draw(found), name, query))
        made = _Drawn(part, chart.set < 0)
        self._known[key] = found.fingerprint, made
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        return made


def _summary(page: _Page, query: Query) -> str:
    if page.all < 0:
        return "Slices change faster than they can be drawn. This part will be updated soon."
    if not page.all:
        return "No devices are published."
    if not page.selected:
        return f"None of {page.all} counter sets and groups of devices matches the filter."
    if page.left_out:
        return f"{page.all} counter sets and groups of devices: open a cell of the heat map, or filter."
    first = (page.page - 1) * A_PAGE + 1
    what = "counter sets and groups of devices"
    if query.filtered:
        what += f" that match the filter; {page.all} in total"
    return f"{first} to {first + len(page.charts) - 1} of {page.selected} {what}."


MOST_HOLDERS = 24
"""Claims listed below a chart"""
MOST_NAMES = 60
"""Devices listed in a sentence"""
MOST_NODES = 4
"""Nodes listed above a chart"""


def chart_values(found: Scene, drawing: Drawing, name: str, query: Query) -> dict[str, object]:
    """The values of the template of a chart."""
    chart = found.chart
    taken = [device for device in found.devices if device.claims]
    free = [device.name for device in found.devices if device.state == "allocatable"]
    tainted = [device.name for device in found.devices if device.state == "tainted"]
    blocked = [device.name for device in found.devices if device.state == "blocked"]
    title = _physical(chart.name, found.nodes)
    if chart.set < 0:
        numbers = f"{chart.rows[0] + 1} to {chart.rows[-1] + 1}"
        title = f"Devices {numbers} of {shown(chart.pool.pool)}"
    holders = [
        {
            "letter": holder.letter,
            "colour": holder.colour,
            "claim": shown(str(holder.claim)),
            "devices": listed(holder.devices, 8),
            "url": query.narrowed(claim=str(holder.claim)),
        }
        for holder in drawing.holders[:MOST_HOLDERS]
    ]
    return {
        "chart": {
            "id": name,
            "name": title,
            "nodes": [
                {"name": shown(node), "url": query.narrowed(node=node)} for node in found.nodes[:MOST_NODES]
            ],
            "pool": shown(chart.pool.pool),
            "driver": shown(chart.pool.driver),
            "summary": _chart_summary(found, title, len(drawing.holders)),
            "flaw": shown(found.flaw, 200),
            "more": max(len(drawing.holders) - MOST_HOLDERS, 0),
        },
        "drawing": drawing,
        "holders": holders,
        "taken": [
            {
                "name": shown(device.name),
                "claims": listed([str(claim) for claim in device.claims], 8),
                "consumed": "".join(f"; {amount} {shown(key)}" for key, amount in device.consumed),
            }
            for device in taken
        ],
        "counters": [
            (shown(counter), found.amount(at, found.totals[at]), found.amount(at, found.left[at]))
            for at, counter in enumerate(found.counters)
        ],
        "free": listed(free, MOST_NAMES) or "none",
        "tainted": listed(tainted, MOST_NAMES),
        "blocked": listed(blocked, MOST_NAMES) or "none",
    }


_SET_WORDS = re.compile(r"[-_.]?(shared[-_.]?)?counter[-_.]?sets?$|[-_.]counters?$", re.IGNORECASE)
_NUMBERED = re.compile(r"([a-z]{2,4})[-_.]?(\d+)", re.IGNORECASE)


def _physical(name: str, nodes: Sequence[str]) -> str:
    """A counter set by the device that it stands for: `GPU 0 on a100-0` for `gpu-0-counter-set`."""
    device = _SET_WORDS.sub("", name) or name
    if found := _NUMBERED.fullmatch(device):
        device = f"{found[1].upper()} {int(found[2])}"
    return shown(f"{device} on {nodes[0]}" if len(nodes) == 1 else device)


def _chart_summary(found: Scene, title: str, claims: int) -> str:
    """The drawing in a sentence, for screen readers."""
    slots = [
        f"{sum(found.left[at] for at in group.columns)} of {len(group.columns)} {shown(group.name)} available"
        for group in found.slots
    ]
    number = Counter(device.state for device in found.devices)
    held = f"{number['held'] + number['shared']} held by {claims} {'claim' if claims == 1 else 'claims'}"
    tainted = [f"{number['tainted']} tainted"] if number["tainted"] else []
    counts = [held, f"{number['allocatable']} free", *tainted, f"{number['blocked']} blocked"]
    return f"{title}: {', '.join([*slots, f'devices: {counts[0]}', *counts[1:]])}"
