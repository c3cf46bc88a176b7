"""Facts about the process."""

from typing import ClassVar

from reconciler.operations.page.panels.panel import Area
from reconciler.operations.page.parts import Part, Renderer
from reconciler.operations.page.query import Query
from reconciler.operations.page.sources import Sources


class HeadPanel:
    """A card for each fact; those that an operator should look at come first."""

    id: ClassVar[str] = "head"
    area: ClassVar[Area] = "head"
    title: ClassVar[str] = ""
    nested: ClassVar[bool] = False

    def __init__(self, sources: Sources, renderer: Renderer) -> None:
        self._sources = sources
        self._renderer = renderer

    async def parts(self, _query: Query, /) -> list[Part]:
        facts = sorted(self._sources.facts(), key=lambda fact: not fact.alert)
        return [self._renderer.part(self.id, "head.html", {"facts": facts})]
