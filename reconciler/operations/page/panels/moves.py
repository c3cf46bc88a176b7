"""Standing advice which pods to move, and what each move is for."""

from typing import ClassVar

from reconciler.operations.page.panels.panel import Area
from reconciler.operations.page.parts import Part, Renderer
from reconciler.operations.page.query import Query
from reconciler.operations.page.sources import Sources

MOST = 100
"""Moves of a goal that are shown"""


class MovesPanel:
    """A table for each goal. Filters do not change it. Absent while nothing should move."""

    id: ClassVar[str] = "moves"
    area: ClassVar[Area] = "lists"
    title: ClassVar[str] = "Moves"
    nested: ClassVar[bool] = False

    def __init__(self, sources: Sources, renderer: Renderer) -> None:
        self._sources = sources
        self._renderer = renderer

    async def parts(self, _query: Query, /) -> list[Part]:
        advised = [one for one in self._sources.moves() if one.moves] if self._sources.ready() else []
        if not advised:
            return []
        badge = str(sum(len(one.moves) for one in advised))
        return [self._renderer.part(self.id, "moves.html", {"advised": advised, "most": MOST}, badge=badge)]
