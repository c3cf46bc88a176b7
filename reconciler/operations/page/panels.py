"""The small panels: facts about the process, filters without a match, gangs, placement policies, moves."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import ClassVar

from reconciler.api.objects.meta import ObjectKey
from reconciler.operations.page.fleet import node_names
from reconciler.operations.page.parts import Area, Panel, Part
from reconciler.operations.page.query import (
    MAX_COMPARED,
    Query,
    matches,
    named_by,
    rows_of_cell,
    select_claims,
    select_pending,
    shown,
)
from reconciler.operations.page.sources import GangEntry


class HeadPanel(Panel):
    """A card for each fact; those that an operator should look at come first."""

    id: ClassVar[str] = "head"
    area: ClassVar[Area] = "head"

    async def parts(self, _query: Query, /) -> list[Part]:
        facts = sorted(self.sources.facts(), key=lambda fact: not fact.alert)
        return [self.renderer.part(self.id, "head.html", {"facts": facts})]


MOST_NAMED = 6
"""Names in a message"""


class FiltersPanel(Panel):
    """One message for each filter that matches no name."""

    id: ClassVar[str] = "filters"
    area: ClassVar[Area] = "notes"

    async def parts(self, query: Query) -> list[Part]:
        messages = list(self._messages(query)) if self.sources.ready() else []
        return [self.renderer.part(self.id, "filters.html", {"messages": messages})]

    def _messages(self, query: Query) -> Iterator[str]:
        plugins = self.sources.plugins
        if query.node:
            of_plugins = (node for view in plugins for node in view.nodes())
            found = {*node_names(self.sources.snapshot()), *of_plugins}
            if not named_by(query.node, sorted(found)):
                yield _nothing("node", "nodes", query.node, sorted(found))
        if query.driver:
            drivers = {pool.id.driver for pool in self.sources.snapshot().fleet.pools}
            found = {*drivers, *(kind for view in plugins for kind in view.types())}
            if not named_by(query.driver, sorted(found)):
                what = ("driver or type", "drivers and types") if plugins else ("driver", "drivers")
                yield _nothing(*what, query.driver, sorted(found))
        if query.reason and not self.sources.by_reason().get(query.reason):
            reasons = {one.reason for one in islice(self.sources.pending(), MAX_COMPARED)}
            if query.reason not in reasons:
                yield _nothing(
                    "pending claim", "reasons", query.reason, sorted(reasons), verb="has the reason"
                )
        if query.cell and not rows_of_cell(query, self.sources.snapshot()).any():
            yield f"No device is in the cell {shown(query.cell)} of the heat map."
        if query.claim and not self._any_claim(query):
            claims = [str(key) for key in islice(self.sources.claims(), MAX_COMPARED + 1)]
            pods = [str(key) for key in islice(self._holders(), MAX_COMPARED + 1)]
            what = ("claim or pod", "claims and pods") if plugins else ("claim", "claims")
            more = max(len(claims), len(pods)) > MAX_COMPARED
            where = f" among the first {MAX_COMPARED:,}" if more else ""
            yield _nothing(what[0], what[1], query.claim, [*claims, *pods], where=where, open_end=more)

    def _holders(self) -> Iterator[ObjectKey]:
        """The pods that hold devices of plugins."""
        return (pod for view in self.sources.plugins for pod in view.pods())

    def _any_claim(self, query: Query) -> bool:
        pods = islice(self._holders(), MAX_COMPARED)
        return bool(
            next(select_pending(query, self.sources), None)
            or select_claims(query.claim, self.sources)
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


MOST_GANGS = 50
"""Gangs that are listed"""


class GangsPanel(Panel):
    """A line for each gang: size, pods, domain, and why it is pending."""

    id: ClassVar[str] = "gangs"
    area: ClassVar[Area] = "lists"
    title: ClassVar[str] = "Gangs"

    async def parts(self, query: Query) -> list[Part]:  # noqa: ARG002
        if not self.sources.ready():
            return []
        waiting, others = self.sources.gangs()
        if not waiting and not others:
            return []
        rows = []
        for key in chain(waiting, others):
            entry = self.sources.gang(key)
            if entry is not None:
                rows.append(_row(entry))
            if len(rows) == MOST_GANGS:
                break
        values = {"rows": rows, "all": len(waiting) + len(others), "waiting": len(waiting)}
        return [self.renderer.part(self.id, "gangs.html", values, badge=str(len(waiting)))]


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


class PlacementPanel(Panel):
    """Filters do not change it. Absent if first fit decides all claims."""

    id: ClassVar[str] = "placement"
    area: ClassVar[Area] = "lists"
    title: ClassVar[str] = "Placement"

    async def parts(self, _query: Query, /) -> list[Part]:
        placement = self.sources.placement() if self.sources.ready() else None
        if placement is None:
            return []
        return [self.renderer.part(self.id, "placement.html", {"placement": placement})]


MOST_MOVES = 100
"""Moves of a goal that are shown"""


class MovesPanel(Panel):
    """A table for each goal. Filters do not change it. Absent while nothing should move."""

    id: ClassVar[str] = "moves"
    area: ClassVar[Area] = "lists"
    title: ClassVar[str] = "Moves"

    async def parts(self, _query: Query, /) -> list[Part]:
        advised = [one for one in self.sources.moves() if one.moves] if self.sources.ready() else []
        if not advised:
            return []
        badge = str(sum(len(one.moves) for one in advised))
        return [
            self.renderer.part(self.id, "moves.html", {"advised": advised, "most": MOST_MOVES}, badge=badge)
        ]
