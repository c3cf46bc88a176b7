"""All nodes, page by page."""

from typing import ClassVar

from reconciler.operations.page.charts import Index
from reconciler.operations.page.filtering import select_charts
from reconciler.operations.page.nodes import A_PAGE, node_list
from reconciler.operations.page.panels.panel import Area
from reconciler.operations.page.parts import Part, Renderer
from reconciler.operations.page.query import Query
from reconciler.operations.page.sources import Sources


class NodesPanel:
    """A table of nodes, the busiest first."""

    id: ClassVar[str] = "nodes"
    area: ClassVar[Area] = "lists"
    title: ClassVar[str] = "Nodes"
    nested: ClassVar[bool] = False

    def __init__(self, sources: Sources, renderer: Renderer, index: Index) -> None:
        self._sources = sources
        self._renderer = renderer
        self._index = index

    async def parts(self, query: Query) -> list[Part]:
        values: dict[str, object] = {"ready": self._sources.ready(), "nodes": None}
        badge = ""
        if values["ready"]:
            await self._sources.capacity.refresh()
            used = await self._index.used()
            snapshot = self._sources.snapshot()
            offered = self._sources.capacity.rows(snapshot.fleet)
            if used is not None and offered is not None:
                charts, parts = used
                selected = select_charts(query.without_node, charts, snapshot, self._sources)
                nodes = node_list(query, snapshot, charts, parts, offered, selected)
                badge = str(nodes.selected)
                first = (nodes.page - 1) * A_PAGE + 1
                values["nodes"] = nodes
                values["shown"] = f"{first} to {first + len(nodes.rows) - 1}"
                values["pager"] = {
                    "page": nodes.page,
                    "pages": nodes.pages,
                    "previous": query.url(nodes=nodes.page - 1, at="nodes") if nodes.page > 1 else "",
                    "next": query.url(nodes=nodes.page + 1, at="nodes") if nodes.page < nodes.pages else "",
                }
        return [self._renderer.part(self.id, "nodes.html", values, badge=badge)]
