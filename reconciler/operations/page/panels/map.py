"""The map: a chart of every counter set and group of devices, page by page.

No snapshot is kept across an await: while a snapshot is referenced, every change of an allocation copies its
columns.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import ClassVar, NamedTuple

from markupsafe import Markup
from msgspec import Struct

from reconciler.operations.page.chart_values import chart_values
from reconciler.operations.page.charts import Chart, Index
from reconciler.operations.page.drawing import draw
from reconciler.operations.page.filtering import select_charts
from reconciler.operations.page.names import anchor
from reconciler.operations.page.panels.panel import Area
from reconciler.operations.page.parts import Part, Renderer, version_of
from reconciler.operations.page.query import Query
from reconciler.operations.page.scene import Scene, scene
from reconciler.operations.page.sources import Sources

A_PAGE = 24
"""Charts on one page"""
AT_ONCE = 8
"""Charts that are checked before the event loop may run other tasks; drawing one takes some milliseconds"""
KEPT = 256
"""Charts with cached HTML"""


class _Page(Struct, frozen=True):
    """The charts on one page of the map, and its position."""

    charts: tuple[Chart, ...]
    page: int
    pages: int
    selected: int
    """Charts that pass the filters"""
    all: int


class _Drawn(NamedTuple):
    """The part of a chart."""

    part: Part
    plain: bool
    """Whether it is a chart of devices without counters"""


class MapPanel:
    """Charts that look as before are not drawn again."""

    id: ClassVar[str] = "map"
    area: ClassVar[Area] = "map"
    title: ClassVar[str] = "Map"
    nested: ClassVar[bool] = True

    def __init__(self, sources: Sources, renderer: Renderer, index: Index) -> None:
        self._sources = sources
        self._renderer = renderer
        self._index = index
        self._known: OrderedDict[str, tuple[Hashable, _Drawn]] = OrderedDict()
        self._drawn = 0
        """Number of charts drawn so far"""

    async def parts(self, query: Query) -> list[Part]:
        page = await self._page(query)
        charts = await self._charts(page, query)
        return [self._map(page, charts, query), *(chart.part for chart in charts)]

    async def _page(self, query: Query) -> _Page:
        if not self._sources.ready():
            return _Page((), 1, 1, 0, 0)
        charts = await self._index.charts()
        snapshot = self._sources.snapshot()
        if charts.fleet() is not snapshot.fleet:  # slices have just changed; the next call is correct
            return _Page((), 1, 1, 0, -1)
        selected = select_charts(query, charts, snapshot, self._sources)
        pages = max(-(-len(selected) // A_PAGE), 1)
        page = min(query.page, pages)
        here = selected[(page - 1) * A_PAGE : page * A_PAGE].tolist()
        return _Page(tuple([charts.all[at] for at in here]), page, pages, len(selected), len(charts.all))

    async def _charts(self, page: _Page, query: Query) -> list[_Drawn]:
        # Links keep the filters, so the HTML of a chart depends on them.
        links = query.narrowed()
        made = []
        for at, chart in enumerate(page.charts):
            before = self._drawn
            found = scene(chart, self._sources.snapshot())
            if found is not None:
                made.append(self._chart(found, query, links))
            if self._drawn > before or at % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)
        return made

    def _map(self, page: _Page, charts: Sequence[_Drawn], query: Query) -> Part:
        values = {
            "summary": _summary(page, query),
            "page": page.page,
            "pages": page.pages,
            "previous": query.url(page=page.page - 1, at=self.id) if page.page > 1 else "",
            "next": query.url(page=page.page + 1, at=self.id) if page.page < page.pages else "",
        }
        version = version_of(repr((values, [chart.part.id for chart in charts])))
        of_sets = [chart.part.html for chart in charts if not chart.plain]
        plain = [chart.part.html for chart in charts if chart.plain]
        html = self._renderer.env.get_template("map.html").render(
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
        part = self._renderer.part(name, "chart.html", chart_values(found, draw(found), name, query))
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
    first = (page.page - 1) * A_PAGE + 1
    what = "counter sets and groups of devices"
    if query.filtered:
        what += f" that match the filter; {page.all} in total"
    return f"{first} to {first + len(page.charts) - 1} of {page.selected} {what}."
