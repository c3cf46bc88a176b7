"""What is pending and why, and which changes wake it."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from msgspec import Struct

from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import ObjectKey
from reconciler.control.units import Unit
from reconciler.state.nodes.table import Hosted
from reconciler.state.store import Delta


class Pending:
    """The reason of every pending unit, and the number of pending claims for each reason.

    A claim that several pods wait for counts once, under the earliest reason.
    """

    def __init__(self) -> None:
        self._units: dict[Unit, tuple[str, tuple[ObjectKey, ...]]] = {}
        self._reasons: dict[ObjectKey, dict[Unit, str]] = {}
        self._counts: Counter[str] = Counter()
        self._spells: dict[Unit, int] = {}
        self._spells_begun = 0
        self.changes = 0
        """Number of changes so far"""

    def __len__(self) -> int:
        return len(self._units)

    def __iter__(self) -> Iterator[tuple[Unit, str, tuple[ObjectKey, ...]]]:
        """Unit, reason and claims of all pending units, the oldest reason first."""
        return ((unit, reason, claims) for unit, (reason, claims) in self._units.items())

    def reason(self, unit: Unit) -> str:
        """Why a unit is pending; empty if it is not."""
        return self._units[unit][0] if unit in self._units else ""

    def spell(self, unit: Unit) -> int:
        """The number of the time span in which a unit is pending without interruption. 0 if it is not."""
        return self._spells.get(unit, 0)

    def note(self, unit: Unit, reason: str, claims: Iterable[ObjectKey]) -> bool:
        """Make a unit pending for a reason. Returns whether the reason is new."""
        claims = tuple(claims)
        if self._units.get(unit) == (reason, claims):
            return False
        other = self.reason(unit) != reason
        if unit not in self._spells:
            self._spells_begun += 1
            self._spells[unit] = self._spells_begun
        self._remove(unit)
        self.changes += 1
        self._units[unit] = (reason, claims)
        for claim in claims:
            reasons = self._reasons.setdefault(claim, {})
            if not reasons:
                self._counts[reason] += 1
            reasons[unit] = reason
        return other

    def drop(self, unit: Unit) -> None:
        """The unit is no longer pending."""
        if self._spells.pop(unit, None) is None:  # as for nearly every unit whose turn ends
            return
        self._remove(unit)

    def _remove(self, unit: Unit) -> None:
        self.changes += unit in self._units
        _, claims = self._units.pop(unit, ("", ()))
        for claim in set(claims):
            reasons = self._reasons[claim]
            self._counts[next(iter(reasons.values()))] -= 1
            del reasons[unit]
            if reasons:
                self._counts[next(iter(reasons.values()))] += 1
            else:
                del self._reasons[claim]

    def by_reason(self) -> dict[str, int]:
        """Pending claims by reason. Past reasons stay, with 0: a metric series should not vanish."""
        return dict(self._counts)

    def by_namespace(self) -> dict[str, int]:
        """Pending claims by namespace, the most first. Past ones do not stay: their number has no bound."""
        counts = Counter(claim.namespace for claim in self._reasons)
        return dict(sorted(counts.items(), key=lambda one: (-one[1], one[0])))


class Wants(Struct, frozen=True):
    """Which changes wake a unit."""

    classes: frozenset[str]
    """Device classes that its claims name"""
    room: bool
    """Whether a freed device may be enough. False if an object must be fixed first."""
    crowded: bool = False
    """Whether pods that leave may be enough, by the CPU, memory and so on that they free"""
    awaits_pods: bool = False
    """Whether pods that arrive may be enough, by affinity or spread"""
    awaits_binding: bool = False
    """Whether it is enough that kube-scheduler binds pods"""
    demand: Any = None
    """What a pod requests of a plugin, with a `shape` that is equal for the same requests"""


AWAITS_OTHERS = Wants(frozenset(), room=False, crowded=True, awaits_pods=True, awaits_binding=True)
"""Of a unit with its devices, whose pods wait for other pods"""


class Waiting:
    """The waiting units. Wakes rather too many: an extra reconcile costs less than a missed one."""

    def __init__(self) -> None:
        self._wants: dict[Unit, Wants] = {}
        self._alike: dict[Hashable, dict[Unit, Any]] = {}
        """Units that request devices of a plugin, by the shape of their demand"""
        self._changes: Counter[str] = Counter()
        """How often something changed that wakes units, by the sort of change"""
        self._marks: dict[Unit, Counter[str]] = {}
        """The same when the search for a unit began that goes on in a thread"""

    def mark(self, unit: Unit) -> None:
        """The search for a unit begins, which is refused later, perhaps, by the state of now."""
        self._marks[unit] = self._changes.copy()

    def missed(self, unit: Unit, wants: Wants) -> bool:
        """Whether something that wakes the unit changed since its search began. Asked once for a search."""
        before = self._marks.pop(unit, self._changes)
        return any(before[sort] != self._changes[sort] for sort in _sorts(wants))

    def add(self, unit: Unit, wants: Wants) -> None:
        """Let a unit wait."""
        self.drop(unit)
        self._wants[unit] = wants
        if wants.demand is not None:
            self._alike.setdefault(wants.demand.shape, {})[unit] = wants.demand

    def has(self, unit: Unit) -> bool:
        """Whether a unit waits."""
        return unit in self._wants

    def drop(self, unit: Unit) -> None:
        """The unit no longer waits."""
        self._marks.pop(unit, None)
        wants = self._wants.pop(unit, None)
        if wants is None or wants.demand is None:
            return
        alike = self._alike[wants.demand.shape]
        del alike[unit]
        if not alike:
            del self._alike[wants.demand.shape]

    def woken_by(self, delta: Delta) -> Iterable[Unit]:
        """The units to reconcile again. They keep waiting until dropped."""
        if delta.supply:
            self.changed("supply")
            return list(self._wants)
        if not delta.freed and not delta.classes:
            return ()
        for sort in (*map(_class, delta.classes), *["freed"] * bool(delta.freed)):
            self.changed(sort)
        return [unit for unit, wants in self._wants.items() if _concerns(delta, wants)]

    def woken_by_pods(self, hosted: Hosted) -> Iterable[Unit]:
        """The units to reconcile again: those that wait for room on a node, for pods that affinity or spread
        counts, or until kube-scheduler binds a pod to its decided node. They keep waiting.
        """
        for sort, happened in (("crowded", hosted.roomier), ("pods", hosted.counted)):
            if happened:
                self.changed(sort)
        return [
            unit
            for unit, wants in self._wants.items()
            if (hosted.roomier and wants.crowded)
            or (hosted.counted and wants.awaits_pods)
            or (hosted.settled and wants.awaits_binding)
        ]

    def changed(self, sort: str) -> None:
        """Count a change that wakes units."""
        self._changes[sort] += 1

    def served_by(self, may_serve: Callable[[Any], bool]) -> list[Unit]:
        """The units that a plugin may serve now, with one check for each shape of demand."""
        return [
            unit for alike in self._alike.values() if may_serve(next(iter(alike.values()))) for unit in alike
        ]


def _sorts(wants: Wants) -> Iterator[str]:
    """The sorts of changes that wake a unit, as far as searches in threads wait for them."""
    yield from ("supply", "volumes", *map(_class, wants.classes))
    yield from ["freed"] * wants.room + ["crowded"] * wants.crowded + ["pods"] * wants.awaits_pods


def _class(name: str) -> str:
    return f"class {name}"


def _concerns(delta: Delta, wants: Wants) -> bool:
    return (wants.room and bool(delta.freed)) or not delta.classes.isdisjoint(wants.classes)


WATCH_PATIENCE = 1.0
"""Seconds for which gates are kept because the watch of claims is behind"""


class WatchLag:
    """How far the watch of claims is behind, and which units wait for it."""

    def __init__(self, put: Callable[..., None]) -> None:
        """`put` queues a unit, to be taken `after` so many seconds."""
        self._put = put
        self._shown = 0
        """The newest version that the watch of claims has shown"""
        self._unshown: dict[Unit, tuple[int, float]] = {}
        """Units that wait until it shows a version, and until when"""

    def shown(self, version: str) -> None:
        """The watch of claims has shown a version, perhaps in an event that says nothing new."""
        if version.isdecimal() and int(version) > self._shown:
            self._shown = int(version)
            for unit in [unit for unit, (until, _) in self._unshown.items() if until <= self._shown]:
                del self._unshown[unit]
                self._put(unit)

    def awaits(self, unit: Unit, claims: Iterable[ResourceClaim], now: float) -> bool:
        """Whether a unit waits until the watch shows these versions of claims, so that kube-scheduler may
        know them (SCHED-11).

        It is requeued then, at the latest after `WATCH_PATIENCE`; `now` is by the clock of the loop.
        """
        versions = (claim.metadata.resource_version for claim in claims)
        newest = max((int(version) for version in versions if version.isdecimal()), default=0)
        if newest <= self._shown:
            return False
        version, until = self._unshown.get(unit, (0, 0.0))
        if version != newest:
            until = now + WATCH_PATIENCE
            self._unshown[unit] = newest, until
        if until <= now:
            del self._unshown[unit]
            return False
        self._put(unit, after=until - now)
        return True
