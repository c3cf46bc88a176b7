"""Says so if a filter names nothing, and what there is."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import ClassVar

from reconciler.operations.page.filtering import MAX_COMPARED, named, select_claims, select_pending
from reconciler.operations.page.names import shown
from reconciler.operations.page.nodes import node_names
from reconciler.operations.page.panels.panel import Area
from reconciler.operations.page.parts import Part, Renderer
from reconciler.operations.page.query import Query, matches
from reconciler.operations.page.sources import Sources
from reconciler.plugins.koordinator.names import TYPES

MOST_NAMED = 6
"""Names in a message"""


class FiltersPanel:
    """One message for each filter that matches no name."""

    id: ClassVar[str] = "filters"
    area: ClassVar[Area] = "notes"
    title: ClassVar[str] = ""
    nested: ClassVar[bool] = False

    def __init__(self, sources: Sources, renderer: Renderer) -> None:
        self._sources = sources
        self._renderer = renderer

    async def parts(self, query: Query) -> list[Part]:
        messages = list(self._messages(query)) if self._sources.ready() else []
        return [self._renderer.part(self.id, "filters.html", {"messages": messages})]

    def _messages(self, query: Query) -> Iterator[str]:
        machines = self._sources.fleet()
        if query.node:
            found = {*node_names(self._sources.snapshot()), *(machines.machines if machines else ())}
            if not named(query.node, sorted(found)):
                yield _nothing("node", "nodes", query.node, sorted(found))
        if query.driver:
            drivers = {pool.id.driver for pool in self._sources.snapshot().fleet.pools}
            found = {*drivers, *(TYPES if machines else ())}
            if not named(query.driver, sorted(found)):
                what = ("driver or type", "drivers and types") if machines else ("driver", "drivers")
                yield _nothing(*what, query.driver, sorted(found))
        if query.reason and not self._sources.by_reason().get(query.reason):
            reasons = {one.reason for one in islice(self._sources.pending(), MAX_COMPARED)}
            if query.reason not in reasons:
                yield _nothing(
                    "pending claim", "reasons", query.reason, sorted(reasons), verb="has the reason"
                )
        if query.claim and not self._any_claim(query):
            claims = [str(key) for key in islice(self._sources.claims(), MAX_COMPARED + 1)]
            pods = [str(key) for key in islice(machines.pods, MAX_COMPARED + 1)] if machines else []
            what = ("claim or pod", "claims and pods") if machines else ("claim", "claims")
            more = max(len(claims), len(pods)) > MAX_COMPARED
            where = f" among the first {MAX_COMPARED:,}" if more else ""
            yield _nothing(what[0], what[1], query.claim, [*claims, *pods], where=where, open_end=more)

    def _any_claim(self, query: Query) -> bool:
        machines = self._sources.fleet()
        pods = islice(machines.pods, MAX_COMPARED) if machines else ()
        return bool(
            next(select_pending(query, self._sources), None)
            or select_claims(query.claim, self._sources)
            or any(matches(query.claim, str(pod)) for pod in pods)
        )


def _nothing(
    one: str,
    many: str,
    wanted: str,
    names: Sequence[str],
    *,
    verb: str = "matches",
    where: str = "",
    open_end: bool = False,
) -> str:
    """The message about a filter that matches nothing."""
    listed = ", ".join(shown(name, 60) for name in names[:MOST_NAMED]) or "none"
    hidden = len(names) - MOST_NAMED
    more = f" and {hidden:,} more" if hidden > 0 else ""
    more = " and more" if open_end else more
    return f"No {one}{where} {verb} {shown(wanted)}; {many}: {listed}{more}."
