"""The whole fleet in numbers: devices by driver and state, and the use of every chart as squares."""

from typing import ClassVar

from reconciler.operations.page.charts import Index
from reconciler.operations.page.overview import driver_rows, use_map
from reconciler.operations.page.panels.panel import Area
from reconciler.operations.page.parts import Part, Renderer
from reconciler.operations.page.query import Query
from reconciler.operations.page.sources import Sources


class FleetPanel:
    """Filters do not change it."""

    id: ClassVar[str] = "fleet"
    area: ClassVar[Area] = "top"
    title: ClassVar[str] = "Fleet"
    nested: ClassVar[bool] = False

    def __init__(self, sources: Sources, renderer: Renderer, index: Index) -> None:
        self._sources = sources
        self._renderer = renderer
        self._index = index

    async def parts(self, query: Query) -> list[Part]:
        values: dict[str, object] = {"ready": self._sources.ready(), "filtered": query.filtered}
        badge = ""
        if values["ready"]:
            await self._sources.capacity.refresh()
            rows = driver_rows(self._sources.capacity.holdings, query)
            used = await self._index.used()
            values["drivers"] = rows
            values["use_map"] = use_map(used[1]) if used is not None else None
            badge = str(sum(row.total for row in rows))
        return [self._renderer.part(self.id, "fleet.html", values, badge=badge)]
