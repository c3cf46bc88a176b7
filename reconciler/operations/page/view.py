"""The parts of the page as HTML, each with a version: equal versions, equal parts.

Pictures are taken and dropped again before anything is awaited: while somebody holds one, every change of
what is held copies columns.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from reconciler.operations.metrics.capacity import STATES
from reconciler.operations.page.charts import Chart, Index
from reconciler.operations.page.drawing import TRACK_AT, Drawing, Span, draw, place
from reconciler.operations.page.filtering import charts_meant, waiting_meant
from reconciler.operations.page.machines import machines_values
from reconciler.operations.page.names import anchor, shown
from reconciler.operations.page.overview import (
    MOST_WAITING,
    driver_rows,
    glance,
    node_rows,
    told_of,
    waiting_row,
)
from reconciler.operations.page.query import Query
from reconciler.operations.page.scene import Scene, scene
from reconciler.operations.page.sources import Sources

A_PAGE = 24
"""Charts on one page"""
AT_ONCE = 8
"""Charts looked at before the loop may go on with other work; one that is drawn takes some milliseconds"""
KEPT = 256
"""Charts whose HTML is remembered"""
MOST_HOLDERS = 24
"""Claims named below one chart"""
MOST_NAMES = 60
"""Devices named in one sentence"""
MOST_NODES = 4
"""Nodes named above one chart"""
_UNKNOWN = "version-unknown"


@dataclass(frozen=True, slots=True)
class _Page:
    """Which charts are on one page of the map, and where it lies."""

    charts: tuple[Chart, ...]
    page: int
    pages: int
    meant: int
    """Charts that pass the filters"""
    all: int


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the page."""

    id: str
    version: str
    html: Markup
    plain: bool = False
    """Whether it is a chart of devices without counters"""


class View:
    """Makes the parts. Charts that look as before are not drawn again."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._index = Index(sources.picture)
        self._drawn: OrderedDict[str, tuple[Hashable, Part]] = OrderedDict()
        self._news: Hashable = None
        self._versions: dict[Query, dict[str, str]] = {}
        self.drawn = 0
        """Charts that had to be drawn"""
        self.env = Environment(
            loader=PackageLoader("reconciler.operations.page"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.env.filters |= {"place": _place, "box": _box}
        self.env.globals |= {"track_at": TRACK_AT, "states": STATES}

    async def parts(self, query: Query, wanted: Collection[str] | None = None) -> list[Part]:
        """The parts `head`, `fleet`, `waiting` and `map`, and one for each chart of the page; also `machines`
        where Koordinator's devices are served.

        Only those named in `wanted` if that is given; the map holds the charts as well.
        """
        made: list[Part] = []
        if wanted is None or "head" in wanted:
            made.append(self._part("head", "head.html", {"facts": self._sources.facts()}))
        if wanted is None or "fleet" in wanted:
            made.append(await self._fleet(query))
        if wanted is None or "waiting" in wanted:
            made.append(self._waiting(query))
        if wanted is None or "machines" in wanted:
            made += self._machines(query)
        if wanted is None or set(wanted) - {"head", "fleet", "waiting", "machines"}:
            page = await self._page(query)
            charts = await self._charts(page, query)
            if wanted is None or "map" in wanted:
                made.append(self._map(page, charts, query))
            made += [chart for chart in charts if wanted is None or chart.id in wanted]
        return made

    async def versions(self, query: Query) -> dict[str, str]:
        """Part -> version. Worked out again only when something changed."""
        now = (self._sources.picture().version if self._sources.ready() else -1), self._sources.news()
        news = (*now, tuple(self._sources.facts()))
        if news != self._news:
            self._news = news
            self._versions.clear()
        if query not in self._versions:
            found = {part.id: part.version for part in await self.parts(query)}
            if news != self._news:
                return found
            self._versions[query] = found
        return self._versions[query]

    def _part(self, name: str, template: str, values: dict[str, object]) -> Part:
        html = self.env.get_template(template).render(version=_UNKNOWN, **values)
        version = _version(html)
        # The first is the part's own: names come later.
        return Part(name, version, Markup(html.replace(_UNKNOWN, version, 1)))

    async def _fleet(self, query: Query) -> Part:
        values: dict[str, object] = {"ready": self._sources.ready()}
        if values["ready"]:
            await self._sources.capacity.refresh()
            charts = await self._index.charts()
            world = self._sources.picture()
            fleet = world.fleet
            used = charts.used(world.occupancy, fleet) if charts.fleet() is fleet else None
            del world, fleet
            values["drivers"] = driver_rows(self._sources.capacity.holdings, query)
            values["glance"] = glance(used) if used is not None else None
            values["nodes"], number = node_rows(charts, used, query) if used is not None else ([], 0)
            values["nodes_told"] = f"{len(values['nodes'])} of {number}"  # type: ignore[arg-type]
        return self._part("fleet", "fleet.html", values)

    def _waiting(self, query: Query) -> Part:
        found = list(islice(waiting_meant(query, self._sources), MOST_WAITING + 1))
        rows = [waiting_row(one) for one in found[:MOST_WAITING]]
        told = told_of(rows, self._sources.by_reason(), more=len(found) > MOST_WAITING)
        if query.claim:
            told += f" Shown: {len(rows)} that match {shown(query.claim)}."
        return self._part("waiting", "waiting.html", {"rows": rows, "told": told})

    def _machines(self, query: Query) -> list[Part]:
        fleet = self._sources.fleet()
        if fleet is None:
            return []
        if not self._sources.ready():
            return [self._part("machines", "machines.html", {"ready": False})]
        return [self._part("machines", "machines.html", {"ready": True, **machines_values(query, fleet)})]

    async def _page(self, query: Query) -> _Page:
        if not self._sources.ready():
            return _Page((), 1, 1, 0, 0)
        charts = await self._index.charts()
        world = self._sources.picture()
        if charts.fleet() is not world.fleet:  # slices changed just now: the next look is right again
            return _Page((), 1, 1, 0, -1)
        meant = charts_meant(query, charts, world, self._sources)
        pages = max(-(-len(meant) // A_PAGE), 1)
        page = min(query.page, pages)
        here = meant[(page - 1) * A_PAGE : page * A_PAGE].tolist()
        return _Page(tuple([charts.all[at] for at in here]), page, pages, len(meant), len(charts.all))

    async def _charts(self, page: _Page, query: Query) -> list[Part]:
        made = []
        for at, chart in enumerate(page.charts):
            before = self.drawn
            found = scene(chart, self._sources.picture())
            if found is not None:
                made.append(self._chart(found, query))
            if self.drawn > before or at % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)
        return made

    def _map(self, page: _Page, charts: Sequence[Part], query: Query) -> Part:
        if page.all < 0:
            told = "Slices change faster than they can be drawn. This part is brought up to date soon."
        elif not page.all:
            told = "No devices are published."
        elif not page.meant:
            told = f"None of {page.all} counter sets and groups of devices passes the filter."
        else:
            first = (page.page - 1) * A_PAGE + 1
            what = "that pass the filter" if query.filtered else "counter sets and groups of devices"
            told = f"{first} to {first + len(page.charts) - 1} of {page.meant} {what}."
        values = {
            "told": told,
            "page": page.page,
            "pages": page.pages,
            "previous": query.url(page=page.page - 1) if page.page > 1 else "",
            "next": query.url(page=page.page + 1) if page.page < page.pages else "",
        }
        version = _version(repr((values, [chart.id for chart in charts])))
        of_sets = [chart.html for chart in charts if not chart.plain]
        plain = [chart.html for chart in charts if chart.plain]
        html = self.env.get_template("map.html").render(
            map={**values, "sets": of_sets, "plain": plain}, version=version
        )
        return Part("map", version, Markup(html))

    def _chart(self, found: Scene, query: Query) -> Part:
        chart = found.chart
        start = int(chart.rows[0]) if chart.set < 0 else -1
        # Links keep the filters, so that a chart looks different under different ones.
        name = anchor(chart.pool, chart.name, start)
        key = f"{name} {query.url(page=1)}"
        before = self._drawn.get(key)
        if before is not None and before[0] == found.fingerprint:
            self._drawn.move_to_end(key)
            return before[1]
        self.drawn += 1
        part = self._part(name, "chart.html", _values(found, draw(found), name, query))
        part = replace(part, plain=chart.set < 0)
        self._drawn[key] = found.fingerprint, part
        if len(self._drawn) > KEPT:
            self._drawn.popitem(last=False)
        return part


def _values(found: Scene, drawing: Drawing, name: str, query: Query) -> dict[str, object]:
    """What the template of a chart is told."""
    chart = found.chart
    taken = [device for device in found.devices if device.claims]
    free = [device.name for device in found.devices if device.state == "allocatable"]
    blocked = [device.name for device in found.devices if device.state == "blocked"]
    title = shown(chart.name)
    if chart.set < 0:
        numbers = f"{chart.rows[0] + 1} to {chart.rows[-1] + 1}"
        title = f"Devices {numbers} of {shown(chart.pool.pool)}"
    holders = [
        {
            "letter": holder.letter,
            "colour": holder.colour,
            "claim": shown(str(holder.claim)),
            "devices": _listed(holder.devices, 8),
            "url": query.url(claim=str(holder.claim), page=1),
        }
        for holder in drawing.holders[:MOST_HOLDERS]
    ]
    return {
        "chart": {
            "id": name,
            "name": title,
            "nodes": [
                {"name": shown(node), "url": query.url(node=node, page=1)}
                for node in found.nodes[:MOST_NODES]
            ],
            "pool": shown(chart.pool.pool),
            "driver": shown(chart.pool.driver),
            "summary": _summary(found, title, len(drawing.holders), len(taken), len(free), len(blocked)),
            "more": max(len(drawing.holders) - MOST_HOLDERS, 0),
        },
        "drawing": drawing,
        "holders": holders,
        "taken": [
            {
                "name": shown(device.name),
                "claims": _listed([str(claim) for claim in device.claims], 8),
                "consumed": "".join(f"; {amount} {shown(key)}" for key, amount in device.consumed),
            }
            for device in taken
        ],
        "counters": [
            (shown(counter), found.amount(at, found.totals[at]), found.amount(at, found.left[at]))
            for at, counter in enumerate(found.counters)
        ],
        "free": _listed(free, MOST_NAMES) or "none",
        "blocked": _listed(blocked, MOST_NAMES) or "none",
    }


def _summary(found: Scene, title: str, claims: int, taken: int, free: int, blocked: int) -> str:
    """The drawing in a sentence, for who cannot see it."""
    slots = [
        f"{sum(found.left[at] for at in group.columns)} of {len(group.columns)} {shown(group.name)} left"
        for group in found.slots
    ]
    counts = f"{taken} devices held by {claims} claims, {free} could be allocated, {blocked} could not now"
    return f"{title}: {', '.join([*slots, counts])}"


def _listed(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(shown, names[:most])) + more


def _version(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def _place(number: float) -> Markup:
    """A coordinate, no more exact than can be seen."""
    return Markup(place(number))


def _box(span: Span) -> Markup:
    """Where a shape lies, as attributes: numbers only, at one go since there are so many."""
    x, y, width, height = place(span.x), place(span.y), place(span.width), place(span.height)
    return Markup(f'x="{x}" y="{y}" width="{width}" height="{height}"')
