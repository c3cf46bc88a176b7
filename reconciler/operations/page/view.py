"""The page: which panels it has, in which order, and their parts."""

from collections.abc import Collection, Hashable

from reconciler.operations.page.charts import Index
from reconciler.operations.page.panels.filters import FiltersPanel
from reconciler.operations.page.panels.fleet import FleetPanel
from reconciler.operations.page.panels.gangs import GangsPanel
from reconciler.operations.page.panels.head import HeadPanel
from reconciler.operations.page.panels.map import A_PAGE, MapPanel
from reconciler.operations.page.panels.moves import MovesPanel
from reconciler.operations.page.panels.nodes import NodesPanel
from reconciler.operations.page.panels.panel import Panel
from reconciler.operations.page.panels.pending import PendingPanel
from reconciler.operations.page.panels.placement import PlacementPanel
from reconciler.operations.page.parts import Part, Renderer
from reconciler.operations.page.query import Query
from reconciler.operations.page.sources import Sources
from reconciler.plugins.koordinator.page import MachinesPanel

JUMP = "jump"
"""The part with links to the panels"""
MOST_PARTS = A_PAGE + 16
"""Parts of one page"""


class View:
    """Makes the parts of all panels."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._state: Hashable = None
        self._versions: dict[Query, dict[str, str]] = {}
        self.renderer = Renderer()
        index = Index(sources.snapshot)
        self.panels: tuple[Panel, ...] = (
            HeadPanel(sources, self.renderer),
            FiltersPanel(sources, self.renderer),
            FleetPanel(sources, self.renderer, index),
            PendingPanel(sources, self.renderer),
            GangsPanel(sources, self.renderer),
            NodesPanel(sources, self.renderer, index),
            MapPanel(sources, self.renderer, index),
            MachinesPanel(sources, self.renderer),
            PlacementPanel(sources, self.renderer),
            MovesPanel(sources, self.renderer),
        )
        """In the order of the page"""

    async def parts(self, query: Query, wanted: Collection[str] | None = None) -> list[Part]:
        """The parts of all panels, and the links to them. If `wanted` is given, only those parts, without the
        parts that are inside others of them.
        """
        asked = self._asked(wanted)
        found = {panel.id: await panel.parts(query) for panel in asked}
        if wanted is None:
            return [part for parts in found.values() for part in parts] + [self._jump(found)]
        made = []
        for parts in found.values():
            whole = [part for part in parts[:1] if part.id in wanted]
            made += whole or [part for part in parts if part.id in wanted]
        return made + ([self._jump(found)] if JUMP in wanted else [])

    async def versions(self, query: Query) -> dict[str, str]:
        """Part -> version. Computed only after a change."""
        version = self._sources.snapshot().version if self._sources.ready() else -1
        sources = self._sources
        moves, facts = tuple(sources.moves()), tuple(sources.facts())
        state = (version, sources.pending_version(), sources.gangs_version(), moves, facts)
        if state != self._state:
            self._state = state
            self._versions.clear()
        if query not in self._versions:
            found = {part.id: part.version for part in await self.parts(query)}
            if state != self._state:
                return found
            self._versions[query] = found
        return self._versions[query]

    def _asked(self, wanted: Collection[str] | None) -> list[Panel]:
        """The panels that make these parts."""
        if wanted is None or JUMP in wanted:
            return list(self.panels)
        inside = set(wanted) - {panel.id for panel in self.panels}
        return [panel for panel in self.panels if panel.id in wanted or (inside and panel.nested)]

    def _jump(self, found: dict[str, list[Part]]) -> Part:
        links = [
            (panel.id, panel.title, found[panel.id][0].badge)
            for panel in self.panels
            if panel.title and found[panel.id]
        ]
        return self.renderer.part(JUMP, "jump.html", {"links": links})
