"""The small panels: facts about the process, filters without a match, gangs, policies, who holds how
much, and what changed.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain, islice

from msgspec import Struct

from reconciler.analysis.capacity.use import NamespaceHoldings, NamespaceUse, PendingClaims
from reconciler.api.objects.meta import ObjectKey
from reconciler.control.decisions.allocating import Allocated, DevicesGiven, Freed, Waits
from reconciler.control.decisions.declaration import Decision
from reconciler.control.decisions.every import Evicted, MoveEvicted
from reconciler.errors import counted
from reconciler.operations.page import query as querying
from reconciler.operations.page.charts import Index
from reconciler.operations.page.fleet import node_names
from reconciler.operations.page.parts import Panel, Part, Renderer
from reconciler.operations.page.sources import GangEntry, Sources


class HeadPanel(Panel, part="head", area="head"):
    """A card for each fact; those that an operator should look at come first."""

    async def parts(self, _query: querying.Query, /) -> list[Part]:
        facts = sorted(self.sources.facts(), key=lambda fact: not fact.alert)
        return [self.renderer.part(self.id, "head.html", {"facts": facts})]


MOST_NAMED = 6
"""Names in a message"""


class FiltersPanel(Panel, part="filters", area="notes"):
    """One message for each filter that matches no name."""

    async def parts(self, query: querying.Query) -> list[Part]:
        messages = list(self._messages(query)) if self.sources.ready() else []
        return [self.renderer.part(self.id, "filters.html", {"messages": messages})]

    def _messages(self, query: querying.Query) -> Iterator[str]:
        plugins = self.sources.plugins
        if query.node:
            of_plugins = (node for view in plugins for node in view.nodes())
            found = {*node_names(self.sources.snapshot()), *of_plugins}
            if not querying.named_by(query.node, sorted(found)):
                yield _nothing("node", "nodes", query.node, sorted(found))
        if query.driver:
            drivers = {pool.id.driver for pool in self.sources.snapshot().fleet.pools}
            found = {*drivers, *(kind for view in plugins for kind in view.types())}
            if not querying.named_by(query.driver, sorted(found)):
                what = ("driver or type", "drivers and types") if plugins else ("driver", "drivers")
                yield _nothing(*what, query.driver, sorted(found))
        if query.reason and not self.sources.by_reason().get(query.reason):
            reasons = {one.reason for one in islice(self.sources.pending(), querying.MAX_COMPARED)}
            if query.reason not in reasons:
                yield _nothing(
                    "pending claim", "reasons", query.reason, sorted(reasons), verb="has the reason"
                )
        if query.cell and not querying.rows_of_cell(query, self.sources.snapshot()).any():
            yield f"No device is in the cell {querying.shown(query.cell)} of the heat map."
        if query.claim and not self._any_claim(query):
            claims = [str(key) for key in islice(self.sources.claims(), querying.MAX_COMPARED + 1)]
            pods = [str(key) for key in islice(self._holders(), querying.MAX_COMPARED + 1)]
            what = ("claim or pod", "claims and pods") if plugins else ("claim", "claims")
            more = max(len(claims), len(pods)) > querying.MAX_COMPARED
            where = f" among the first {querying.MAX_COMPARED:,}" if more else ""
            yield _nothing(what[0], what[1], query.claim, [*claims, *pods], where=where, open_end=more)

    def _holders(self) -> Iterator[ObjectKey]:
        """The pods that hold devices of plugins."""
        return (pod for view in self.sources.plugins for pod in view.pods())

    def _any_claim(self, query: querying.Query) -> bool:
        pods = islice(self._holders(), querying.MAX_COMPARED)
        return bool(
            next(querying.select_pending(query, self.sources), None)
            or querying.select_claims(query.claim, self.sources)
            or any(querying.matches(query.claim, str(pod)) for pod in pods)
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
    listed = ", ".join(querying.shown(name, 60) for name in names[:MOST_NAMED]) or "none"
    hidden = len(names) - MOST_NAMED
    more = f" and {hidden:,} more" if hidden > 0 else ""
    more = " and more" if open_end else more
    return f"No {one}{where} {verb} {querying.shown(wanted)}; {many}: {listed}{more}."


MOST_GANGS = 50
"""Gangs that are listed"""


class GangsPanel(Panel, part="gangs", area="lists", title="Gangs"):
    """A line for each gang: size, pods, domain, and why it is pending."""

    async def parts(self, query: querying.Query) -> list[Part]:  # noqa: ARG002
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
        "name": querying.shown(str(line.gang)),
        "size": "?" if line.least is None else str(line.least),
        "pods": ", ".join(f"{count} {word}" for count, word in parts if count) or "0",
        "domain": querying.shown(", ".join(f"{key}={value}" for key, value in line.domain)),
        "reason": querying.shown(entry.reason),
        "message": querying.shown(entry.message, 400),
    }


class PlacementPanel(Panel, part="placement", area="lists", title="Placement"):
    """Filters do not change it. Absent if first fit decides all claims."""

    async def parts(self, _query: querying.Query, /) -> list[Part]:
        placement = self.sources.placement() if self.sources.ready() else None
        if placement is None:
            return []
        return [self.renderer.part(self.id, "placement.html", {"placement": placement})]


MOST_MOVES = 100
"""Moves of a goal that are shown"""


class MovesPanel(Panel, part="moves", area="lists", title="Moves"):
    """A table for each goal. Filters do not change it. Absent while nothing should move."""

    async def parts(self, _query: querying.Query, /) -> list[Part]:
        advised = [one for one in self.sources.moves() if one.moves] if self.sources.ready() else []
        if not advised:
            return []
        badge = str(sum(len(one.moves) for one in advised))
        return [
            self.renderer.part(self.id, "moves.html", {"advised": advised, "most": MOST_MOVES}, badge=badge)
        ]


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


class LastHourPanel(Panel, part="hour", area="who", title="Last hour"):
    """Filters do not change it."""

    async def parts(self, _query: querying.Query, /) -> list[Part]:
        recent, now = self.sources.recent, self.sources.now()
        found = recent.by_minute()
        most = max(map(max, found.values()))
        rows = [(what, sum(counts), _bars(counts, most)) for what, counts in found.items()]
        short = now - recent.began < timedelta(minutes=MINUTES)
        latest = [
            Change(one.what, querying.shown(one.who), one.at, querying.shown(one.more, 120))
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


class NamespacesPanel(Panel, part="namespaces", area="who", title="Namespaces"):
    """A table of namespaces: those that hold most, and those that wait. Filters do not change it."""

    def __init__(self, sources: Sources, renderer: Renderer, index: Index) -> None:
        super().__init__(sources, renderer, index)
        self._holdings = NamespaceHoldings()

    async def parts(self, query: querying.Query) -> list[Part]:
        pending: dict[str, PendingClaims] = {}
        for group in await self.index.pending.groups():
            for entry in group.entries:
                pending.setdefault(entry.key.namespace, PendingClaims()).add(entry.known)
        found = self._holdings.look(self.sources.snapshot(), pending) if self.sources.ready() else []
        waiting = min((one for one in found if one.oldest), key=lambda one: one.oldest, default=None)
        values: dict[str, object] = {
            "rows": [
                (
                    one,
                    querying.shown(one.namespace),
                    query.narrowed(claim=f"{one.namespace}/"),
                    round(100 * one.use),
                )
                for one in _most(found)
            ],
            "hidden": len(found[MOST_NAMESPACES:]),
            "longest": (querying.shown(waiting.namespace), waiting.oldest) if waiting is not None else None,
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
