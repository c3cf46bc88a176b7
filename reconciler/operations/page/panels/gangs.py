"""Gangs, if there are any: the pending ones first, then those that have their places."""

from itertools import chain
from typing import ClassVar

from reconciler.operations.page.names import shown
from reconciler.operations.page.panels.panel import Area
from reconciler.operations.page.parts import Part, Renderer
from reconciler.operations.page.query import Query
from reconciler.operations.page.sources import GangEntry, Sources

MOST = 50
"""Gangs that are listed"""


class GangsPanel:
    """A line for each gang: size, pods, domain, and why it is pending."""

    id: ClassVar[str] = "gangs"
    area: ClassVar[Area] = "lists"
    title: ClassVar[str] = "Gangs"
    nested: ClassVar[bool] = False

    def __init__(self, sources: Sources, renderer: Renderer) -> None:
        self._sources = sources
        self._renderer = renderer

    async def parts(self, query: Query) -> list[Part]:  # noqa: ARG002
        if not self._sources.ready():
            return []
        waiting, others = self._sources.gangs()
        if not waiting and not others:
            return []
        rows = []
        for key in chain(waiting, others):
            entry = self._sources.gang(key)
            if entry is not None:
                rows.append(_row(entry))
            if len(rows) == MOST:
                break
        values = {"rows": rows, "all": len(waiting) + len(others), "waiting": len(waiting)}
        return [self._renderer.part(self.id, "gangs.html", values, badge=str(len(waiting)))]


def _row(entry: GangEntry) -> dict[str, str]:
    line = entry.line
    parts = ((line.bound, "bound"), (line.released, "released"), (line.gated, "gated"))
    return {
        "name": shown(str(line.gang)),
        "size": "?" if line.least is None else str(line.least),
        "pods": ", ".join(f"{count} {word}" for count, word in parts if count) or "0",
        "domain": shown(", ".join(f"{key}={value}" for key, value in line.domain)),
        "reason": shown(entry.reason),
        "message": shown(entry.message, 400),
    }
