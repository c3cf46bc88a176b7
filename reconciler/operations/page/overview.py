"""Who holds how much and who waits longest, by namespace; and what changed in the last hour."""

from collections import Counter, deque
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import ClassVar

from msgspec import Struct

from reconciler.analysis.capacity.grouping import NamespaceHoldings, NamespaceUse, PendingClaims
from reconciler.control.decisions.allocating import Allocated, DevicesGiven, Freed, Waits
from reconciler.control.decisions.declaration import Decision
from reconciler.control.decisions.every import Evicted, MoveEvicted
from reconciler.errors import counted
from reconciler.operations.page.charts import Index
from reconciler.operations.page.parts import Area, Panel, Part, Renderer
from reconciler.operations.page.query import Query, shown
from reconciler.operations.page.sources import Sources

MINUTES = 60
CHANGES = ("held", "freed", "refused", "evicted")
MOST_LATEST = 5
"""Changes that are named, the latest first"""


class Change(Struct, frozen=True):
    """One change of the last hour."""

    what: str
    """One of CHANGES"""
    who: str
    at: str
    """As the API writes times"""
    more: str
    """Devices, reason or cause"""


class Recent:
    """What was decided in the last hour, minute by minute, and the latest changes."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self.began = now()
        self._minutes: deque[tuple[datetime, Counter[str]]] = deque(maxlen=MINUTES)
        self.latest: deque[Change] = deque(maxlen=MOST_LATEST)
        self.changes = 0
        """Number of changes so far"""

    def on_decision(self, decision: Decision) -> None:
        """Count a decision that changed something; ignore others."""
        match decision:
            case Allocated(claim=claim, devices=devices):
                found = ("held", f"claim {claim}", counted(len(devices), "device"))
            case DevicesGiven(pod=pod, devices=devices):
                found = ("held", f"pod {pod}", counted(len(devices), "device"))
            case Freed(claim=claim, why=why):
                found = ("freed", f"claim {claim}", why)
            case Waits(claims=claims, pod=pod, gang=gang, reason=reason):
                who = f"gang {gang}" if gang else f"pod {pod}" if pod else f"claim {claims[0]}"
                found = ("refused", who, reason)
            case Evicted(pod=pod, nominee=nominee):
                found = ("evicted", f"pod {pod}", f"for {nominee}")
            case MoveEvicted(pod=pod, to=to):
                found = ("evicted", f"pod {pod}", f"moves to {to}")
            case _:
                return
        now = self._now()
        minute = now.replace(second=0, microsecond=0)
        if not self._minutes or self._minutes[-1][0] != minute:
            self._minutes.append((minute, Counter()))
        self._minutes[-1][1][found[0]] += 1
        self.latest.appendleft(Change(found[0], found[1], now.isoformat(), found[2]))
        self.changes += 1

    def by_minute(self) -> dict[str, list[int]]:
        """Each of CHANGES -> how many in each minute of the last hour, the oldest first."""
        last = self._now().replace(second=0, microsecond=0)
        found = {what: [0] * MINUTES for what in CHANGES}
        for minute, counts in self._minutes:
            at = MINUTES - 1 - round((last - minute).total_seconds() / 60)
            for what, count in counts.items() if 0 <= at < MINUTES else ():
                found[what][at] = count
        return found

    def version(self) -> tuple[int, datetime]:
        """Changes whenever the last hour may look different."""
        return self.changes, self._now().replace(second=0, microsecond=0)


class LastHourPanel(Panel):
    """Filters do not change it."""

    id: ClassVar[str] = "hour"
    area: ClassVar[Area] = "who"
    title: ClassVar[str] = "Last hour"

    async def parts(self, _query: Query, /) -> list[Part]:
        recent, now = self.sources.recent, self.sources.now()
        found = recent.by_minute()
        most = max(map(max, found.values()))
        rows = [(what, sum(counts), _bars(counts, most)) for what, counts in found.items()]
        short = now - recent.began < timedelta(minutes=MINUTES)
        latest = [
            Change(one.what, shown(one.who), one.at, shown(one.more, 120))
            for one in recent.latest
            if now - datetime.fromisoformat(one.at) < timedelta(minutes=MINUTES)
        ]
        values: dict[str, object] = {
            "rows": rows,
            "began": recent.began.isoformat() if short else "",
            "latest": latest,
        }
        return [self.renderer.part(self.id, "hour.html", values, now=now)]


BAR_HEIGHT = 18


def _bars(counts: list[int], most: int) -> str:
    """A bar for each minute, as one path."""
    bars = []
    for at, count in enumerate(counts):
        if count:
            height = max(round(BAR_HEIGHT * count / most), 1)
            bars.append(f"M{2 * at} {BAR_HEIGHT}v-{height}h2v{height}z")
    return "".join(bars)


MOST_NAMESPACES = 12
"""Namespaces that are listed"""


class NamespacesPanel(Panel):
    """A table of namespaces: those that hold most, and those that wait. Filters do not change it."""

    id: ClassVar[str] = "namespaces"
    area: ClassVar[Area] = "who"
    title: ClassVar[str] = "Namespaces"

    def __init__(self, sources: Sources, renderer: Renderer, index: Index) -> None:
        super().__init__(sources, renderer, index)
        self._holdings = NamespaceHoldings()

    async def parts(self, query: Query) -> list[Part]:
        pending: dict[str, PendingClaims] = {}
        for group in await self.index.pending.groups():
            for entry in group.entries:
                pending.setdefault(entry.key.namespace, PendingClaims()).add(entry.known)
        found = self._holdings.look(self.sources.snapshot(), pending) if self.sources.ready() else []
        waiting = min((one for one in found if one.oldest), key=lambda one: one.oldest, default=None)
        values: dict[str, object] = {
            "rows": [
                (one, shown(one.namespace), query.narrowed(claim=f"{one.namespace}/"), round(100 * one.use))
                for one in _most(found)
            ],
            "hidden": len(found[MOST_NAMESPACES:]),
            "longest": (shown(waiting.namespace), waiting.oldest) if waiting is not None else None,
        }
        badge = str(len(found))
        return [self.renderer.part(self.id, "namespaces.html", values, badge=badge, now=self.sources.now())]


def _most(found: list[NamespaceUse]) -> list[NamespaceUse]:
    """Those that are listed: in turns who holds most, has most pending and waits longest. Then by use."""
    by_use = sorted(found, key=lambda one: -one.use)
    by_pending = sorted(found, key=lambda one: -one.pending)
    by_age = sorted(found, key=lambda one: one.oldest or "~")
    listed = dict.fromkeys(one for three in zip(by_use, by_pending, by_age, strict=True) for one in three)
    return sorted(list(listed)[:MOST_NAMESPACES], key=lambda one: (-one.use, -one.pending, one.namespace))
