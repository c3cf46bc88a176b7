"""The routes of the page, what it consists of, and the stream of its changes.

The page loads nothing from other servers, and its policy forbids other scripts.
"""

import asyncio
import json
from base64 import b64encode
from collections.abc import Collection, Hashable
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import get_args

from aiohttp import web
from markupsafe import Markup

from reconciler.operations.page import drawing, panels, pending
from reconciler.operations.page.charts import Index
from reconciler.operations.page.fleet import FleetPanel, HeatPanel, NodesPanel
from reconciler.operations.page.map import A_PAGE, MapPanel
from reconciler.operations.page.parts import Area, Panel, Part, Renderer
from reconciler.operations.page.query import Query
from reconciler.operations.page.sources import Sources
from reconciler.operations.serving.port import Route

JUMP = "jump"
"""The part with links to the panels"""
MOST_PARTS = A_PAGE + 16
"""Parts of one page"""


PANELS: tuple[type[Panel], ...] = (
    panels.HeadPanel, panels.FiltersPanel, HeatPanel, FleetPanel, panels.NamespacesPanel,
    panels.LastHourPanel, pending.PendingPanel, panels.GangsPanel, NodesPanel, MapPanel,
)  # fmt: skip
"""In front of those of plugins"""


class View:
    """Makes the parts of all panels."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._state: Hashable = None
        self._versions: dict[Query, dict[str, str]] = {}
        self.renderer = Renderer()
        index = Index(sources.snapshot, pending.PendingIndex(sources))
        with_these = sources, self.renderer, index
        of_plugins = [panel for view in sources.plugins for panel in view.panels(*with_these)]
        self.panels: tuple[Panel, ...] = (
            *(kind(*with_these) for kind in PANELS),
            *of_plugins,
            panels.PlacementPanel(*with_these),
            panels.MovesPanel(*with_these),
        )
        """In the order of the page"""

    async def parts(self, query: Query, wanted: Collection[str] | None = None) -> list[Part]:
        """The parts of all panels, and the links to them. If `wanted` is given, only those parts, without the
        parts that are inside others of them.
        """
        asked = self._asked(wanted)
        found = {panel.id: await panel.parts(query) for panel in asked}
        if wanted is None:
            return [part for parts in found.values() for part in parts] + [self._jump(found)]
        made = []
        for parts in found.values():
            whole = [part for part in parts[:1] if part.id in wanted]
            made += whole or [part for part in parts if part.id in wanted]
        return made + ([self._jump(found)] if JUMP in wanted else [])

    async def versions(self, query: Query) -> dict[str, str]:
        """Part -> version. Computed only after a change."""
        version = self._sources.snapshot().version if self._sources.ready() else -1
        sources = self._sources
        moves, facts = tuple(sources.moves()), tuple(sources.facts())
        recent = sources.recent.version()
        state = (version, sources.pending_version(), sources.gangs_version(), moves, facts, recent)
        if state != self._state:
            self._state = state
            self._versions.clear()
        if query not in self._versions:
            found = {part.id: part.version for part in await self.parts(query)}
            if state != self._state:
                return found
            self._versions[query] = found
        return self._versions[query]

    def _asked(self, wanted: Collection[str] | None) -> list[Panel]:
        """The panels that make these parts."""
        if wanted is None or JUMP in wanted:
            return list(self.panels)
        inside = set(wanted) - {panel.id for panel in self.panels}
        return [panel for panel in self.panels if panel.id in wanted or (inside and panel.nested)]

    def _jump(self, found: dict[str, list[Part]]) -> Part:
        links = [
            (panel.id, panel.title, found[panel.id][0].badge)
            for panel in self.panels
            if panel.title and found[panel.id]
        ]
        return self.renderer.part(JUMP, "jump.html", {"links": links})


MOST_CLIENTS = 12
"""Fewer than the concurrent requests of the port, so that health and metrics still answer"""
PAUSE_SECONDS = 0.5
"""Minimum time between two messages to a client: changes come in bursts"""
BEAT_SECONDS = 15.0
"""Maximum time without a message: proxies keep the connection. The page takes silence of three for a broken
one."""
WRITE_SECONDS = 10.0
"""Timeout of a write to a client"""
RETRY_MS = 3000


class Stream:
    """Sends the versions of pages to a few clients. The only state of a client is its last message."""

    def __init__(self, view: View, sources: Sources, stop: asyncio.Event) -> None:
        self._view = view
        self._sources = sources
        self._stop = stop
        self.clients = 0

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Send versions until the process ends. Cancelled if the client disconnects."""
        if self.clients >= MOST_CLIENTS:
            return web.Response(status=503, text="too many pages are open\n", headers={"Retry-After": "30"})
        self.clients += 1
        try:
            response = web.StreamResponse(
                headers={
                    "Content-Type": "text/event-stream",
                    "Cache-Control": "no-store",
                    "X-Content-Type-Options": "nosniff",
                    "X-Accel-Buffering": "no",
                }
            )
            await response.prepare(request)
            if request.method != "HEAD":
                await self._send(response, Query.read(request.query))
            return response
        finally:
            self.clients -= 1

    async def _send(self, response: web.StreamResponse, query: Query) -> None:
        sent: dict[str, str] | None = None
        await _write(response, f"retry: {RETRY_MS}\n\n")
        last = self._sources.clock()
        while not self._stop.is_set():
            versions = await self._view.versions(query)
            now = self._sources.clock()
            if versions != sent:
                await _write(response, message("state", self._sources.now(), versions))
                sent, last = versions, now
            elif now - last >= BEAT_SECONDS:
                await _write(response, message("alive", self._sources.now()))
                last = now
            try:
                async with asyncio.timeout(PAUSE_SECONDS):
                    await self._stop.wait()
            except TimeoutError:
                continue


def message(kind: str, now: datetime, versions: dict[str, str] | None = None) -> str:
    """An event: `state` with all versions, so that a client may miss earlier ones, or `alive` without."""
    data: dict[str, object] = {"at": clock_time(now), "time": now.isoformat()}
    if versions is not None:
        data["versions"] = versions
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"


def clock_time(now: datetime) -> str:
    """Date and time with the zone."""
    return f"{now:%Y-%m-%d %H:%M:%S %Z}"


async def _write(response: web.StreamResponse, text: str) -> None:
    try:
        async with asyncio.timeout(WRITE_SECONDS):
            await response.write(text.encode())
    except TimeoutError as exc:
        raise ConnectionResetError("the client does not read") from exc


def page_routes(sources: Sources, stop: asyncio.Event) -> list[Route]:
    """The page, its fragments, the event stream of changed fragments, and explanations.

    `stop` ends the event streams when the process ends.
    """
    view = View(sources)
    stream = Stream(view, sources, stop)
    explainer = pending.ExplanationsInTurn(sources)

    async def whole(request: web.BaseRequest) -> web.StreamResponse:
        query = Query.read(request.query)
        parts = {part.id: part.html for part in await view.parts(query)}
        areas: dict[str, list[Markup]] = {area: [] for area in get_args(Area)}
        for panel in view.panels:
            if panel.id in parts:
                areas[panel.area].append(parts[panel.id])
        return _html(
            view,
            "page.html",
            query=query,
            now=(now := sources.now()),
            at=clock_time(now),
            script=_script(),
            machines=bool(sources.plugins),
            jump=parts[JUMP],
            areas=areas,
        )

    async def fragments(request: web.BaseRequest) -> web.StreamResponse:
        wanted = set(request.query.getall("id", [])[:MOST_PARTS])
        parts = await view.parts(Query.read(request.query), wanted)
        return web.Response(text="".join(part.html for part in parts), headers=_headers("text/html"))

    async def why(request: web.BaseRequest) -> web.StreamResponse:
        named = [request.query.get(name, "") for name in ("kind", "namespace", "name")]
        asked = pending.question_of(*named)
        if asked is None:
            return web.Response(status=400, text="expected ?kind=claim&namespace=...&name=...\n")
        try:
            explanation = explainer.answer(asked)
        except pending.Busy as busy:
            retry = {"Retry-After": str(max(1, round(busy.seconds + 0.5)))}
            return web.Response(status=429, text=f"too many explanations: {busy}\n", headers=retry)
        return _html(
            view,
            "explanation.html",
            at=clock_time(sources.now()),
            **pending.explanation_values(asked, explanation),
        )

    return [
        Route("/", whole),
        Route("/fragments", fragments),
        Route("/events", stream.serve),
        Route("/explanation", why),
    ]


def _html(view: View, template: str, **variables: object) -> web.Response:
    text = view.renderer.env.get_template(template).render(style=_style(), **variables)
    return web.Response(text=text, headers=_headers("text/html"))


def _headers(content_type: str) -> dict[str, str]:
    return {
        "Content-Type": f"{content_type}; charset=utf-8",
        "Content-Security-Policy": (
            f"default-src 'none'; style-src '{_hash(_style())}'; script-src '{_hash(_script())}'; "
            "img-src data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        ),
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }


@cache
def _style() -> Markup:
    # The stylesheet has no external data, so it needs no escaping.
    return Markup(f"{drawing.rules()}\n{_file('style.css')}")


@cache
def _script() -> Markup:
    return Markup(_file("page.js"))


def _file(name: str) -> str:
    return (files("reconciler.operations.page") / "templates" / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
