"""Koordinator's devices, if this process serves them."""

from typing import ClassVar

from reconciler.operations.page.machines import machines_values
from reconciler.operations.page.panels.panel import Area
from reconciler.operations.page.parts import Part, Renderer
from reconciler.operations.page.query import Query
from reconciler.operations.page.sources import Sources


class MachinesPanel:
    """Devices by type, then a drawing of each machine."""

    id: ClassVar[str] = "machines"
    area: ClassVar[Area] = "map"
    title: ClassVar[str] = "Machines"
    nested: ClassVar[bool] = False

    def __init__(self, sources: Sources, renderer: Renderer) -> None:
        self._sources = sources
        self._renderer = renderer

    async def parts(self, query: Query) -> list[Part]:
        fleet = self._sources.fleet()
        if fleet is None:
            return []
        if not self._sources.ready():
            return [self._renderer.part(self.id, "machines.html", {"ready": False})]
        values = machines_values(query, fleet)
        badge = str(values["number"])
        return [self._renderer.part(self.id, "machines.html", {"ready": True, **values}, badge=badge)]
