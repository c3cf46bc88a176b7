"""The parts of the page as HTML, each with a version: parts with equal versions are equal.

No snapshot is kept across an await: while a snapshot is referenced, every change of an allocation copies its
columns.
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
from reconciler.operations.page.filtering import select_charts, select_pending
from reconciler.operations.page.machines import machines_values
from reconciler.operations.page.names import anchor, shown
from reconciler.operations.page.overview import (
    MAX_PENDING,
    driver_rows,
    node_rows,
    pending_row,
    pending_summary,
    use_map,
)
from reconciler.operations.page.query import Query
from reconciler.operations.page.scene import Scene, scene
from reconciler.operations.page.sources import Sources

A_PAGE = 24
"""Charts on one page"""
AT_ONCE = 8
"""Charts that are checked before the event loop may run other tasks; drawing one takes some milliseconds"""
KEPT = 256
"""Charts with cached HTML"""
MOST_HOLDERS = 24
"""Claims listed below a chart"""
MOST_NAMES = 60
"""Devices listed in a sentence"""
MOST_NODES = 4
"""Nodes listed above a chart"""
_UNKNOWN = "version-unknown"


@dataclass(frozen=True, slots=True)
class _Page:
    """The charts on one page of the map, and its position."""

    charts: tuple[Chart, ...]
    page: int
    pages: int
    selected: int
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
        self._index = Index(sources.snapshot)
        self._drawn: OrderedDict[str, tuple[Hashable, Part]] = OrderedDict()
        self._state: Hashable = None
        self._versions: dict[Query, dict[str, str]] = {}
        self.drawn = 0
        """Number of charts drawn so far"""
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
        """The parts `head`, `fleet`, `waiting` and `map`, and one per chart of the page; also `machines` if
        Koordinator's devices are served.

        If `wanted` is given, only those parts; the map contains the charts.
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
        """Part -> version. Computed only after a change."""
        version = self._sources.snapshot().version if self._sources.ready() else -1
        state = (version, self._sources.pending_version(), tuple(self._sources.facts()))
        if state != self._state:
            self._state = state
            self._versions.clear()
        if query not in self._versions:
            found = {part.id: part.version for part in await self.parts(query)}
            if state != self._state:
                return found
            self._versions[query] = found
        return self._versions[query]

    def _part(self, name: str, template: str, values: dict[str, object]) -> Part:
        html = self.env.get_template(template).render(version=_UNKNOWN, **values)
        version = _version(html)
        # The first match is the version of the part: names come later.
        return Part(name, version, Markup(html.replace(_UNKNOWN, version, 1)))

    async def _fleet(self, query: Query) -> Part:
        values: dict[str, object] = {"ready": self._sources.ready()}
        if values["ready"]:
            await self._sources.capacity.refresh()
            charts = await self._index.charts()
            snapshot = self._sources.snapshot()
            fleet = snapshot.fleet
            used = charts.used(snapshot.occupancy, fleet) if charts.fleet() is fleet else None
            del snapshot, fleet
            values["drivers"] = driver_rows(self._sources.capacity.holdings, query)
            values["use_map"] = use_map(used) if used is not None else None
            values["nodes"], number = node_rows(charts, used, query) if used is not None else ([], 0)
            values["nodes_summary"] = f"{len(values['nodes'])} of {number}"  # type: ignore[arg-type]
        return self._part("fleet", "fleet.html", values)

    def _waiting(self, query: Query) -> Part:
        found = list(islice(select_pending(query, self._sources), MAX_PENDING + 1))
        rows = [pending_row(one) for one in found[:MAX_PENDING]]
        summary = pending_summary(rows, self._sources.by_reason(), more=len(found) > MAX_PENDING)
        if query.claim:
            summary += f" {len(rows)} match {shown(query.claim)}."
        return self._part("waiting", "waiting.html", {"rows": rows, "summary": summary})

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
        snapshot = self._sources.snapshot()
        if charts.fleet() is not snapshot.fleet:  # slices have just changed; the next call is correct
            return _Page((), 1, 1, 0, -1)
        selected = select_charts(query, charts, snapshot, self._sources)
        pages = max(-(-len(selected) // A_PAGE), 1)
        page = min(query.page, pages)
        here = selected[(page - 1) * A_PAGE : page * A_PAGE].tolist()
        return _Page(tuple([charts.all[at] for at in here]), page, pages, len(selected), len(charts.all))

    async def _charts(self, page: _Page, query: Query) -> list[Part]:
        made = []
        for at, chart in enumerate(page.charts):
            before = self.drawn
            found = scene(chart, self._sources.snapshot())
            if found is not None:
                made.append(self._chart(found, query))
            if self.drawn > before or at % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)
        return made

    def _map(self, page: _Page, charts: Sequence[Part], query: Query) -> Part:
        if page.all < 0:
            summary = "Slices change faster than they can be drawn. This part will be updated soon."
        elif not page.all:
            summary = "No devices are published."
        elif not page.selected:
            summary = f"None of {page.all} counter sets and groups of devices matches the filter."
        else:
            first = (page.page - 1) * A_PAGE + 1
            what = "counter sets and groups of devices" + (" that match the filter" if query.filtered else "")
            summary = f"{first} to {first + len(page.charts) - 1} of {page.selected} {what}."
        values = {
            "summary": summary,
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
        # Links keep the filters, so the HTML of a chart depends on them.
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
    """The values of the template of a chart."""
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
    """The drawing in a sentence, for screen readers."""
    slots = [
        f"{sum(found.left[at] for at in group.columns)} of {len(group.columns)} {shown(group.name)} available"
        for group in found.slots
    ]
    claim_word = "claim" if claims == 1 else "claims"
    counts = f"devices: {taken} held by {claims} {claim_word}, {free} allocatable, {blocked} blocked"
    return f"{title}: {', '.join([*slots, counts])}"


def _listed(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(shown, names[:most])) + more


def _version(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def _place(number: float) -> Markup:
    """A coordinate with visible precision."""
    return Markup(place(number))


def _box(span: Span) -> Markup:
    """Position and size of a shape as attributes, in one call because there are many shapes."""
    x, y, width, height = place(span.x), place(span.y), place(span.width), place(span.height)
    return Markup(f'x="{x}" y="{y}" width="{width}" height="{height}"')
