"""Pending claims by reason, each with its age and a link to its explanation."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple
from urllib.parse import urlencode

from msgspec import Struct, field

from reconciler.allocation.explanation import Explanation, Request
from reconciler.allocation.reason_table import remedy
from reconciler.api.objects.meta import ObjectKey
from reconciler.control.units import Kind, Unit
from reconciler.operations.page.fleet import BAR
from reconciler.operations.page.parts import Panel, Part
from reconciler.operations.page.query import MAX_COMPARED, Query, matches, shown
from reconciler.operations.page.sources import PendingUnit, Sources

AT_ONCE = 500
"""Units that are grouped before the event loop may run other tasks"""
OLDEST = 3
"""Claims of each reason on the page of all reasons"""
A_PAGE = 50
"""Claims on a page of one reason"""
_LAST = "~"
"""Sorts after every timestamp"""


class Entry(NamedTuple):
    """A pending claim, or a pod that has no claims yet or requests devices of a plugin. Sorted by age."""

    created: str
    """As the API writes it, so that text order is time order; _LAST if it is not known"""
    position: int
    """In the order in which they became pending"""
    kind: str
    key: ObjectKey
    unit: PendingUnit

    @property
    def known(self) -> str:
        """When it was created; empty if that is not known."""
        return _known(self.created)


class Group(Struct):
    """All entries with one reason."""

    reason: str
    entries: list[Entry] = field(default_factory=list)
    """The oldest first"""
    claims: int = 0
    oldest: str = _LAST

    @property
    def pods(self) -> int:
        return len(self.entries) - self.claims


class PendingIndex:
    """Groups the pending units again after a change. A claim of several pods counts once, like in metrics."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._version: object = None
        self._groups: tuple[Group, ...] = ()
        self._lock = asyncio.Lock()

    async def groups(self) -> tuple[Group, ...]:
        """The group with the oldest entry first: the order seldom changes."""
        async with self._lock:
            version = self._sources.pending_version()
            if version != self._version:
                self._groups = await _grouped(self._sources.pending(), self._sources)
                self._version = version
            return self._groups


async def _grouped(units: Iterable[PendingUnit], sources: Sources) -> tuple[Group, ...]:
    found: dict[str, Group] = {}
    seen: set[ObjectKey] = set()
    for number, unit in enumerate(units, start=1):
        if unit.claims:
            for key in unit.claims:
                if key not in seen:
                    seen.add(key)
                    _add(found, unit, "claim", key, sources)
        else:
            _add(found, unit, unit.kind, unit.key, sources)
        if number % AT_ONCE == 0:
            await asyncio.sleep(0)
    for group in found.values():
        group.entries.sort()
        await asyncio.sleep(0)
    return tuple(sorted(found.values(), key=lambda group: (group.oldest, group.reason)))


def _add(groups: dict[str, Group], unit: PendingUnit, kind: str, key: ObjectKey, sources: Sources) -> None:
    group = groups.get(unit.reason)
    if group is None:
        group = groups[unit.reason] = Group(unit.reason)
    created = sources.created(kind, key) or _LAST
    group.entries.append(Entry(created, len(group.entries), kind, key, unit))
    group.claims += kind == "claim"
    group.oldest = min(group.oldest, created)


class PendingRow(Struct, frozen=True):
    """An entry in the list."""

    name: str
    named: str
    """With its kind"""
    pod: str
    """The pod that it is decided with, if any"""
    created: str
    """Empty if it is not known"""
    message: str
    url: str


class PendingGroup(Struct, frozen=True):
    """A reason in the list."""

    reason: str
    count: str
    """In words"""
    oldest: str
    """When the oldest was created; empty if it is not known"""
    remedy: str
    rows: tuple[PendingRow, ...]
    total: int
    url: str
    """All entries of this reason; empty if they are shown"""


def pending_group(group: Group, query: Query) -> PendingGroup:
    """The oldest entries of a reason; one page of them if the query names the reason."""
    entries = group.entries
    here = entries[:OLDEST]
    if query.reason:
        start = (min(query.pending, pages_of(group)) - 1) * A_PAGE
        here = entries[start : start + A_PAGE]
    all_shown = query.reason or len(entries) <= OLDEST
    return PendingGroup(
        reason=shown(group.reason),
        count=counted_words(group.claims, group.pods),
        oldest=_known(group.oldest),
        remedy=remedy(group.reason),
        rows=tuple(map(_row, here)),
        total=len(entries),
        url="" if all_shown else query.narrowed(at="waiting", reason=group.reason),
    )


def pages_of(group: Group) -> int:
    """Number of pages of one reason."""
    return max(-(-len(group.entries) // A_PAGE), 1)


def only_entries(groups: Sequence[Group], wanted: set[tuple[str, ObjectKey]]) -> tuple[Group, ...]:
    """The groups with only those entries."""
    made = []
    for group in groups:
        entries = [entry for entry in group.entries if (entry.kind, entry.key) in wanted]
        if entries:
            claims = sum(entry.kind == "claim" for entry in entries)
            made.append(Group(group.reason, entries, claims, min(entry.created for entry in entries)))
    return tuple(made)


def counted_words(claims: int, pods: int) -> str:
    """How many, in words."""
    parts = [f"{claims} claim{'s' * (claims != 1)}"] if claims or not pods else []
    return " and ".join([*parts, *([f"{pods} pod{'s' * (pods != 1)}"] if pods else [])])


def question_url(kind: str, key: ObjectKey) -> str:
    """The address of the explanation of a pending claim or pod."""
    pairs = {"kind": kind, "namespace": key.namespace, "name": key.name}
    encoded = {name: value.encode(errors="replace") for name, value in pairs.items()}
    return f"/explanation?{urlencode(encoded)}"


def _row(entry: Entry) -> PendingRow:
    unit = entry.unit
    name = shown(str(entry.key))
    message = unit.message.removeprefix(f"claim {entry.key}, ").removeprefix(f"{entry.key} ")
    return PendingRow(
        name=name,
        named=f"{entry.kind} {name}",
        pod=shown(str(unit.key)) if unit.kind == "pod" and entry.kind == "claim" else "",
        created=entry.known,
        message=shown(message, 400),
        url=question_url(unit.kind, unit.key),
    )


def _known(created: str) -> str:
    return "" if created == _LAST else created


def select_entries(wanted: str, groups: Iterable[Group]) -> set[tuple[str, ObjectKey]]:
    """Kind and key of the pending entries whose own name, or whose pod's name, matches the filter."""
    entries = islice((entry for group in groups for entry in group.entries), MAX_COMPARED)
    return {
        (entry.kind, entry.key)
        for entry in entries
        if matches(wanted, str(entry.key)) or matches(wanted, str(entry.unit.key))
    }


MOST_OPEN = 4
"""Reasons whose claims are visible at once; the others are one line each until they are opened"""


class PendingPanel(Panel, part="waiting", area="lists", title="Pending"):
    """A group for each reason with its oldest claims; with a filter by reason, all of its claims."""

    async def parts(self, query: Query) -> list[Part]:
        groups, now = await self.index.pending.groups(), self.sources.now()
        claims, pods = sum(group.claims for group in groups), sum(group.pods for group in groups)
        summary = _summary(claims, pods)
        if query.claim:
            more = f" of the first {MAX_COMPARED:,}" if claims + pods > MAX_COMPARED else ""
            groups = only_entries(groups, select_entries(query.claim, groups))
            matching = counted_words(
                sum(group.claims for group in groups), sum(group.pods for group in groups)
            )
            summary += f" {matching}{more} match{'es' * _one(groups)} {shown(query.claim)}."
        if query.reason:
            groups = tuple([group for group in groups if group.reason == query.reason])
        total = sum(len(group.entries) for group in groups)
        values: dict[str, object] = {
            "summary": summary,
            "open": MOST_OPEN,
            "groups": [pending_group(group, query) for group in groups],
            "all_reasons": query.narrowed(at="waiting", reason="") if query.reason else "",
            "pager": None,
        }
        if query.reason and groups:
            values["pager"] = query.pager("pending", pages_of(groups[0]), self.id)
        return [self.renderer.part(self.id, "waiting.html", values, badge=str(total), now=now)]


def _summary(claims: int, pods: int) -> str:
    if not claims + pods:
        return "No claim is pending."
    return f"{counted_words(claims, pods)} {'is' if claims + pods == 1 else 'are'} pending."


def _one(groups: tuple[Group, ...]) -> bool:
    return sum(len(group.entries) for group in groups) == 1


SHARE = 0.05
"""Maximum part of the time that is spent on explanations"""
LONGEST = 800
"""Characters of a sentence"""


class Busy(Exception):
    """The time for explanations is used up for now."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"retry in {seconds:.1f} s")
        self.seconds = seconds


class ExplanationsInTurn:
    """Answers one question at a time, with pauses between them."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._next = float("-inf")

    def answer(self, question: Unit) -> Explanation | None:
        """None if there is nothing to decide. Raises Busy during the pause."""
        began = self._sources.clock()
        if began < self._next:
            raise Busy(self._next - began)
        try:
            return self._sources.explain(question)
        finally:
            ended = self._sources.clock()
            self._next = ended + (ended - began) * (1 / SHARE - 1)


def explanation_values(question: Unit, explanation: Explanation | None) -> dict[str, object]:
    """The values of the template."""
    named = f"{question.kind} {shown(str(question.key))}"
    if explanation is None:
        nothing = "There is nothing to decide: it may be allocated, deleted, or pending for another reason."
        return {"named": named, "explanation": None, "nothing": nothing}
    message = explanation.message or (f"On node {explanation.node}." if explanation.node else "")
    return {
        "named": named,
        "explanation": explanation,
        "message": shown(message, LONGEST),
        "together": [
            f"{shown(str(key))} {shown(text)}"
            for key, text in (*explanation.conflict, *explanation.conflicting)
        ],
        "requests": [_request(request, explanation) for request in explanation.requests],
        "deciding": [shown(str(short), LONGEST) for short in explanation.deciding],
        "nearest": [shown(str(miss), LONGEST) for miss in explanation.nearest],
    }


def question_of(kind: str, namespace: str, name: str) -> Unit | None:
    """The question of a request; None if it has no valid name."""
    if kind not in ("claim", "pod") or not name or len(name) > 253 or len(namespace) > 253:
        return None
    return Unit(Kind(kind), ObjectKey(namespace, name))


def _request(request: Request, explanation: Explanation) -> dict[str, object]:
    steps = [{"about": "all devices", "detail": "", "left": request.devices, "width": BAR}]
    for step in request.funnel:
        errors = f"errors on {step.errors} devices" if step.errors else ""
        detail = "; ".join(filter(None, [errors, step.detail]))
        width = BAR * step.left / max(request.devices, 1)
        about = shown(step.about, LONGEST)
        steps.append({"about": about, "detail": shown(detail, LONGEST), "left": step.left, "width": width})
    return {
        "name": shown(request.request),
        "owner": "claim" if request.claim in explanation.claims else "pod",
        "claim": shown(str(request.claim)),
        "wanted": "all that match" if request.wanted is None else request.wanted,
        "steps": steps,
        "lines": [shown(line, LONGEST) for line in request.sentences()],
    }
