"""The routes of the page. It loads nothing from other servers, and its policy forbids other scripts."""

import asyncio
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files

from aiohttp import web
from markupsafe import Markup

from reconciler.operations.page import colours
from reconciler.operations.page.query import Query
from reconciler.operations.page.sources import Sources
from reconciler.operations.page.stream import Stream, clock_time
from reconciler.operations.page.view import JUMP, MOST_PARTS, View
from reconciler.operations.page.why import Busy, Explainer, question, values
from reconciler.operations.serving.port import Route


def page_routes(sources: Sources, stop: asyncio.Event) -> list[Route]:
    """The page, its fragments, the event stream of changed fragments, and explanations.

    `stop` ends the event streams when the process ends.
    """
    view = View(sources)
    stream = Stream(view, sources, stop)
    explainer = Explainer(sources)

    async def whole(request: web.BaseRequest) -> web.StreamResponse:
        query = Query.read(request.query)
        parts = {part.id: part.html for part in await view.parts(query)}
        areas: dict[str, list[Markup]] = {}
        for panel in view.panels:
            if panel.id in parts:
                areas.setdefault(panel.area, []).append(parts[panel.id])
        return _html(
            view,
            "page.html",
            query=query,
            now=(now := sources.now()),
            at=clock_time(now),
            script=_script(),
            machines=sources.fleet() is not None,
            jump=parts[JUMP],
            areas=areas,
        )

    async def fragments(request: web.BaseRequest) -> web.StreamResponse:
        wanted = set(request.query.getall("id", [])[:MOST_PARTS])
        parts = await view.parts(Query.read(request.query), wanted)
        return web.Response(text="".join(part.html for part in parts), headers=_headers("text/html"))

    async def why(request: web.BaseRequest) -> web.StreamResponse:
        named = [request.query.get(name, "") for name in ("kind", "namespace", "name")]
        asked = question(*named)
        if asked is None:
            return web.Response(status=400, text="expected ?kind=claim&namespace=...&name=...\n")
        try:
            explanation = explainer.answer(asked)
        except Busy as busy:
            retry = {"Retry-After": str(max(1, round(busy.seconds + 0.5)))}
            return web.Response(status=429, text=f"too many explanations: {busy}\n", headers=retry)
        return _html(view, "explanation.html", at=clock_time(sources.now()), **values(asked, explanation))

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
    return Markup(f"{colours.rules()}\n{_file('style.css')}")


@cache
def _script() -> Markup:
    return Markup(_file("page.js"))


def _file(name: str) -> str:
    return (files("reconciler.operations.page") / "templates" / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
