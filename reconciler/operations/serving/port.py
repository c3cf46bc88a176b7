"""The HTTP port for health, metrics and the status page: access control and routing.

Parts of the process add routes at any time:

    port.add(*metrics_routes(...), *page_routes(...))
"""

from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web
from msgspec import Struct

from reconciler.operations.serving.access import Access, Denied

log = structlog.get_logger()

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
AT_ONCE = 32
"""Concurrent requests; each may block the event loop for a few milliseconds"""


class Route(Struct, frozen=True):
    """A path and its handler. A path that ends with `/` also matches all paths below it."""

    path: str
    handler: Handler
    methods: tuple[str, ...] = ("GET", "HEAD")
    open: bool = False
    """Whether the route needs no access; only for health checks"""


class StatusPort:
    """Checks access and calls the handler of a request's route."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._routes: dict[str, Route] = {}
        self._busy = 0

    @property
    def paths(self) -> list[str]:
        """Served paths, sorted."""
        return sorted(self._routes)

    def add(self, *routes: Route) -> None:
        """Add routes. A route replaces an earlier one of the same path."""
        self._routes |= {route.path: route for route in routes}

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request. Raises neither for invalid requests nor for errors of handlers."""
        route = self._find(request.path)
        if self._busy >= AT_ONCE and not (route and route.open):
            return _text(429, "too many requests", {"Retry-After": "1"})
        self._busy += 1
        try:
            if route is None or not route.open:
                await self._access.check(request)
            if route is None:
                return _text(404, "404 page not found")
            if request.method not in route.methods:
                return _text(405, "method not allowed", {"Allow": ", ".join(route.methods)})
            response = await route.handler(request)
        except Denied as denied:
            return _text(denied.status, str(denied), denied.headers)
        except web.HTTPException as exc:  # for example, a body that is too large
            return _text(exc.status, exc.reason)
        except ConnectionError:
            raise
        except Exception:
            log.exception("status request failed", path=request.path)
            return _text(500, "internal error; see the log")
        finally:
            self._busy -= 1
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    def _find(self, path: str) -> Route | None:
        if path in self._routes:
            return self._routes[path]
        above = [at for at in self._routes if at.endswith("/") and at != "/" and path.startswith(at)]
        return self._routes[max(above, key=len)] if above else None


def _text(status: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        status=status, text=f"{text}\n", headers={"X-Content-Type-Options": "nosniff", **(headers or {})}
    )
