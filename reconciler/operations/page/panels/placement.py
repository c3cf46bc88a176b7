"""The demand that placement policies keep room for, and what each policy would have done."""

from typing import ClassVar

from reconciler.operations.page.panels.panel import Area
from reconciler.operations.page.parts import Part, Renderer
from reconciler.operations.page.query import Query
from reconciler.operations.page.sources import Sources


class PlacementPanel:
    """Filters do not change it. Absent if first fit decides all claims."""

    id: ClassVar[str] = "placement"
    area: ClassVar[Area] = "lists"
    title: ClassVar[str] = "Placement"
    nested: ClassVar[bool] = False

    def __init__(self, sources: Sources, renderer: Renderer) -> None:
        self._sources = sources
        self._renderer = renderer

    async def parts(self, _query: Query, /) -> list[Part]:
        placement = self._sources.placement() if self._sources.ready() else None
        if placement is None:
            return []
        return [self._renderer.part(self.id, "placement.html", {"placement": placement})]
