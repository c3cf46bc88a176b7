"""The HTTP port for health, metrics and the status page: access and routing; `/livez`, `/readyz`, `/statusz`.

Parts of the process add routes at any time:

    port.add(*metrics_routes(...), *page_routes(...))
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from http import HTTPStatus
from platform import python_version

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from msgspec import Struct

from reconciler.operations.serving.access import Access, Denied

log = structlog.get_logger()

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
MALFORMED = "malformed HTTP request"
AT_ONCE = 32
"""Concurrent requests; each may block the event loop for a few milliseconds"""
REFUSAL_SECONDS = 1.0
"""After which a route's 429 is sent: who asks again at once takes the time of decisions"""


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
        self._held = 0
        """Refusals that wait; they count for themselves"""

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
                await self._access(request)
            if route is None:
                return _text(404, "404 page not found")
            if request.method not in route.methods:
                return _text(405, "method not allowed", {"Allow": ", ".join(route.methods)})
            response = await route.handler(request)
        except Denied as denied:
            return _text(denied.status, str(denied), denied.headers)
        except web.HTTPException as exc:  # for example, a body that is too large
            return _text(exc.status, exc.reason)
        except (HttpProcessingError, web.RequestPayloadError):  # their texts quote the body
            return _text(400, MALFORMED)
        except ConnectionError:
            raise
        except Exception:
            log.exception("status request failed", path=request.path)
            return _text(500, "internal error; see the log")
        finally:
            self._busy -= 1
        if response.status == HTTPStatus.TOO_MANY_REQUESTS and self._held < AT_ONCE:
            self._held += 1
            try:
                await asyncio.sleep(REFUSAL_SECONDS)
            finally:
                self._held -= 1
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


Check = Callable[[], str]
"""The problem in one line; empty if the check passes"""


class Health:
    """Named checks. They run for every request, so they are cheap and do not wait."""

    def __init__(self, name: str) -> None:
        """`name` is the path without the slash."""
        self._name = name
        self._checks: dict[str, Check] = {"ping": lambda: ""}

    def add(self, name: str, check: Check) -> None:
        """Add a check. It replaces an earlier one of the same name."""
        self._checks[name] = check

    def problems(self) -> dict[str, str]:
        """Failed check -> its problem."""
        return {name: problem for name, check in self._checks.items() if (problem := check())}

    def routes(self) -> list[Route]:
        """The path, and `/NAME/CHECK` for each check. They are open because the kubelet sends no token."""
        return [
            Route(f"/{self._name}", self._answer, open=True),
            Route(f"/{self._name}/", self._single, open=True),
        ]

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        left_out = set(request.query.getall("exclude", []))
        lines, failed = [], False
        for name, check in self._checks.items():
            if name in left_out:
                lines.append(f"[+]{name} excluded: ok")
                continue
            problem = check()
            failed = failed or bool(problem)
            lines.append(f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok")
        unknown = sorted(left_out - set(self._checks))
        if unknown:
            quoted = ", ".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
        if failed:
            return web.Response(status=500, text="\n".join([*lines, f"{self._name} check failed"]) + "\n")
        if "verbose" in request.query:
            return web.Response(text="\n".join([*lines, f"{self._name} check passed"]) + "\n")
        return web.Response(text="ok")

    async def _single(self, request: web.BaseRequest) -> web.StreamResponse:
        check = self._checks.get(request.path.removeprefix(f"/{self._name}/"))
        if check is None:
            return web.Response(status=404, text="404 page not found\n")
        problem = check()
        return web.Response(status=500, text=f"{problem}\n") if problem else web.Response(text="ok")


class Progress:
    """Whether the reconciler makes progress. It is stuck if work is due and none completes for too long."""

    def __init__(
        self,
        done: Callable[[], int],
        waiting: Callable[[], float],
        seconds: float,
        clock: Callable[[], float],
    ) -> None:
        """`done` counts completed work; `waiting` is the age of the oldest due work in seconds, 0 if there is
        none; work that is older than `seconds` without progress is stuck; `clock` counts seconds.
        """
        self._done = done
        self._waiting = waiting
        self._seconds = seconds
        self._clock = clock
        self._seen = done()
        self._since = clock()

    def problem(self) -> str:
        """The problem; empty if none. Idle time counts from the last call without a problem."""
        done, waiting = self._done(), self._waiting()
        if done != self._seen or not waiting:
            self._seen, self._since = done, self._clock()
        idle = self._clock() - self._since
        if min(idle, waiting) <= self._seconds:
            return ""
        return f"no progress for {idle:.0f} s; the oldest work has been due for {waiting:.0f} s"


Row = tuple[str, str]
Section = Callable[[], Iterable[Row]]

_WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility "
    "guarantees and is for debugging purposes only."
)


class Statusz:
    """A header in the format of Kubernetes components, then sections with rows of name and value."""

    def __init__(self, version: str, semantics: str, now: Callable[[], datetime]) -> None:
        """`semantics` is the Kubernetes release whose rules apply; `now` returns the time with its zone."""
        self._version = version
        self._semantics = semantics
        self._now = now
        self._started = now()
        self._sections: dict[str, Section] = {}

    def add(self, title: str, section: Section) -> None:
        """Add a section. Its rows are computed for each request."""
        self._sections[title] = section

    def text(self, paths: Iterable[str]) -> str:
        """The page."""
        minutes, seconds = divmod(int((self._now() - self._started).total_seconds()), 60)
        lines = [
            "",
            "dra-reconciler statusz",
            _WARNING,
            "",
            f"Started: {self._started:%a %b %d %H:%M:%S %Z %Y}",
            f"Up: {minutes // 60} hr {minutes % 60:02} min {seconds:02} sec",
            f"Python version: {python_version()}",
            f"Binary version: {self._version}",
            f"Emulation version: {self._semantics}",
            f"Paths: {' '.join(paths)}",
        ]
        for title, section in self._sections.items():
            lines += ["", f"{title}:"]
            lines += [f"  {_one_line(name)}: {_one_line(value)}" for name, value in section()]
        return "\n".join(lines) + "\n"

    def routes(self, port: StatusPort) -> list[Route]:
        """`/statusz`, with the paths of the port."""

        async def statusz(_: web.BaseRequest) -> web.StreamResponse:
            return web.Response(text=self.text(port.paths))

        return [Route("/statusz", statusz)]


def _one_line(text: str) -> str:
    """One line, even if a name has line breaks."""
    return " ".join(text.split())
