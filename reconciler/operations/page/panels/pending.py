"""Pending claims by reason, each with its age and a link to its explanation."""

from collections import OrderedDict
from datetime import datetime, timedelta
from typing import ClassVar

from reconciler.operations.page.filtering import MAX_COMPARED, select_entries
from reconciler.operations.page.names import shown
from reconciler.operations.page.panels.panel import Area
from reconciler.operations.page.parts import Part, Renderer
from reconciler.operations.page.pending import (
    Group,
    PendingIndex,
    counted,
    filtered,
    pages_of,
    pending_group,
)
from reconciler.operations.page.query import Query
from reconciler.operations.page.sources import Sources

MOST_OPEN = 4
"""Reasons whose claims are visible at once; the others are one line each until they are opened"""
KEPT = 16
"""Queries whose list is kept"""
FRESH = timedelta(seconds=5)
"""How long a kept list shows the same ages. The script of the page counts them on"""


class PendingPanel:
    """A group for each reason with its oldest claims; with a filter by reason, all of its claims."""

    id: ClassVar[str] = "waiting"
    area: ClassVar[Area] = "lists"
    title: ClassVar[str] = "Pending"
    nested: ClassVar[bool] = False

    def __init__(self, sources: Sources, renderer: Renderer) -> None:
        self._sources = sources
        self._renderer = renderer
        self._index = PendingIndex(sources)
        self._known: OrderedDict[Query, tuple[tuple[Group, ...], datetime, Part]] = OrderedDict()

    async def parts(self, query: Query) -> list[Part]:
        groups, now = await self._index.groups(), self._sources.now()
        known = self._known.get(query)
        if known is not None and known[0] is groups and now - known[1] < FRESH:
            return [known[2]]
        part = self._part(query, groups, now)
        self._known[query] = groups, now, part
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        return [part]

    def _part(self, query: Query, groups: tuple[Group, ...], now: datetime) -> Part:
        claims, pods = sum(group.claims for group in groups), sum(group.pods for group in groups)
        summary = _summary(claims, pods)
        if query.claim:
            more = f" of the first {MAX_COMPARED:,}" if claims + pods > MAX_COMPARED else ""
            groups = filtered(groups, select_entries(query.claim, groups))
            matching = counted(sum(group.claims for group in groups), sum(group.pods for group in groups))
            summary += f" {matching}{more} match{'es' * _one(groups)} {shown(query.claim)}."
        if query.reason:
            groups = tuple([group for group in groups if group.reason == query.reason])
        total = sum(len(group.entries) for group in groups)
        values: dict[str, object] = {
            "summary": summary,
            "open": MOST_OPEN,
            "groups": [pending_group(group, query) for group in groups],
            "all_reasons": query.narrowed(at="waiting", reason="") if query.reason else "",
            "pager": _pager(groups[0], query) if query.reason and groups else None,
        }
        return self._renderer.part(self.id, "waiting.html", values, badge=str(total), now=now)


def _summary(claims: int, pods: int) -> str:
    if not claims + pods:
        return "No claim is pending."
    return f"{counted(claims, pods)} {'is' if claims + pods == 1 else 'are'} pending."


def _one(groups: tuple[Group, ...]) -> bool:
    return sum(len(group.entries) for group in groups) == 1


def _pager(group: Group, query: Query) -> dict[str, object]:
    pages = pages_of(group)
    page = min(query.pending, pages)
    return {
        "page": page,
        "pages": pages,
        "previous": query.url(pending=page - 1, at="waiting") if page > 1 else "",
        "next": query.url(pending=page + 1, at="waiting") if page < pages else "",
    }
