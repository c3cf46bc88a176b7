"""`/livez` and `/readyz` in the format of Kubernetes components: one line per check, status 200 or 500.

They run on the event loop of the reconciler, so they do not answer if the loop is stuck.
"""

from collections.abc import Callable

from aiohttp import web

from reconciler.operations.serving.port import Route

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
