"""`/livez` and `/readyz`, in the words of Kubernetes' own: a line a check, 200 or 500.

The answer comes from the loop that decides, so that one that is stuck does not answer at all.
"""

from collections.abc import Callable

from aiohttp import web

from reconciler.operations.serving.port import Route

Check = Callable[[], str]
"""What is wrong, in a line; empty if nothing is"""


class Health:
    """Named checks that are made anew for every request. Cheap ones: nothing here waits."""

    def __init__(self, name: str) -> None:
        """`name` is the path, without slash."""
        self._name = name
        self._checks: dict[str, Check] = {"ping": lambda: ""}

    def add(self, name: str, check: Check) -> None:
        """One more check; the last of a name counts."""
        self._checks[name] = check

    def problems(self) -> dict[str, str]:
        """The checks that fail, and why."""
        return {name: problem for name, check in self._checks.items() if (problem := check())}

    def routes(self) -> list[Route]:
        """The path, and `/NAME/CHECK` for each single check. Open: the kubelet comes without a token."""
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
    """Whether work goes on. Stuck is: something waits to be done, and nothing was done for too long."""

    def __init__(
        self,
        done: Callable[[], int],
        waiting: Callable[[], float],
        seconds: float,
        clock: Callable[[], float],
    ) -> None:
        """`done` counts what was done, `waiting` tells for how long the first in the queue could have begun,
        0 if there is none; `seconds` is too long; `clock` counts seconds.
        """
        self._done = done
        self._waiting = waiting
        self._seconds = seconds
        self._clock = clock
        self._seen = done()
        self._since = clock()

    def problem(self) -> str:
        """What is wrong; empty if nothing is. Counts from the last call at which all was well."""
        done, waiting = self._done(), self._waiting()
        if done != self._seen or not waiting:
            self._seen, self._since = done, self._clock()
        idle = self._clock() - self._since
        if min(idle, waiting) <= self._seconds:
            return ""
        return f"nothing was done for {idle:.0f} s, and something waits for {waiting:.0f} s"
