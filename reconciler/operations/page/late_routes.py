"""The routes of the page, which is imported with the first request: many processes never show it."""

import asyncio

from aiohttp import web

from reconciler.operations.page.sources import Sources
from reconciler.operations.serving.port import Handler, Route

PATHS = ("/", "/fragments", "/events", "/explanation")
"""Those of `page_routes`"""


def late_page_routes(sources: Sources, stop: asyncio.Event) -> list[Route]:
    """As `page_routes`. Templates and panels take longer to import than a small fleet to list."""
    page = _Page(sources, stop)
    return [Route(path, page.handler(path)) for path in PATHS]


class _Page:
    def __init__(self, sources: Sources, stop: asyncio.Event) -> None:
        self._sources, self._stop = sources, stop
        self._handlers: dict[str, Handler] = {}

    def handler(self, path: str) -> Handler:
        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            if not self._handlers:
                await asyncio.to_thread(_import)  # not on the loop: it would hold it
                self._make()
            return await self._handlers[path](request)

        return handle

    def _make(self) -> None:
        from reconciler.operations.page.routes import page_routes  # noqa: PLC0415 - see above

        if not self._handlers:  # of several first requests, one makes the page
            self._handlers = {route.path: route.handler for route in page_routes(self._sources, self._stop)}


def _import() -> None:
    from reconciler.operations.page import routes  # noqa: F401, PLC0415 - see above
