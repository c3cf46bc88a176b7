"""`/statusz`: the state of this process and of its API server, for people. Source: KEP-4827."""

from collections.abc import Callable, Iterable
from datetime import datetime
from platform import python_version

from aiohttp import web

from reconciler.operations.serving.port import Route, StatusPort

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
            lines += [f"  {_line(name)}: {_line(value)}" for name, value in section()]
        return "\n".join(lines) + "\n"

    def routes(self, port: StatusPort) -> list[Route]:
        """`/statusz`, with the paths of the port."""

        async def statusz(_: web.BaseRequest) -> web.StreamResponse:
            return web.Response(text=self.text(port.paths))

        return [Route("/statusz", statusz)]


def _line(text: str) -> str:
    """One line, even if a name has line breaks."""
    return " ".join(text.split())
