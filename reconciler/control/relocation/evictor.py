"""Evicts for all purposes: one pod at a time, within the rates, and never while writes are paused.

Source: MAKE-9.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from enum import IntEnum
from math import inf

import structlog
from msgspec import Struct

from reconciler.api.objects.changes import Changed, Notice, Refused, Removed, Replaced
from reconciler.api.objects.claims import is_ours
from reconciler.api.objects.core import PodDisruptionBudget
from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.pod_writer import EvictionRequests, Evictions
from reconciler.control.decisions.declaration import Decision, Report
from reconciler.control.ownership import Ownership
from reconciler.control.pausing import Pause
from reconciler.control.relocation.ground import Victim
from reconciler.errors import Gone, Paused, Protected, ReconcilerError, Retry, Undecided
from reconciler.ha.shard import Side
from reconciler.state.store import Store

MINUTE, HOUR = 60.0, 3600.0


class Rates:
    """Counts evictions. After a restart it starts with an empty count."""

    def __init__(self, per_minute: int, per_hour: int) -> None:
        self._limits = ((MINUTE, per_minute), (HOUR, per_hour))
        self._times: deque[float] = deque()

    def wait(self, now: float, pods: int = 1) -> float:
        """Seconds until the evictions of so many pods are allowed; 0 if they are; inf if never."""
        if any(pods > most for _, most in self._limits):
            return inf
        while self._times and self._times[0] <= now - HOUR:
            self._times.popleft()
        waits = [0.0]
        for span, most in self._limits:
            if len(self._times) > (before := most - pods):
                waits.append(self._times[-before - 1] + span - now)
        return max(waits)

    def count(self, now: float) -> None:
        """An eviction was requested at this time."""
        self._times.append(now)


def allocated_by_us(claims: Iterable[ObjectKey], store: Store, ours: Ownership) -> bool:
    """Whether we allocated all of these claims. A pod without devices is nobody's to evict."""
    held = [store.claims[key] for key in claims]
    classes = store.snapshot().classes if held else {}
    return bool(held) and all(
        ours.side(claim, lambda: classes).side is Side.OURS
        and ours.trespass(claim, claim.allocation) is None
        and is_ours(claim)  # another shard may have written it: the mark is the same
        for claim in held
    )


class KnownBudgets:
    """The sink of their watch. Plans are made only once they are listed."""

    def __init__(self) -> None:
        self.listed = False
        self.serial = 0
        """Number of changes so far"""
        self.asked = asyncio.Event()
        """Set by the first plan: until then nobody needs the watch"""
        self.unknown = False
        """Whether this account may not read budgets, so that none is known"""
        self.unreadable: set[ObjectKey] = set()
        """Budgets that cannot be parsed: nobody knows which pods they cover, so nothing is evicted"""
        self._known: dict[ObjectKey, PodDisruptionBudget] = {}

    @property
    def known(self) -> tuple[PodDisruptionBudget, ...]:
        """The newest version of each."""
        return tuple(self._known.values())

    def take(self, change: Notice) -> None:
        """Apply a change."""
        self.serial += 1
        match change:
            case Changed(object=PodDisruptionBudget() as budget):
                self._known[budget.key] = budget
                self.unreadable.discard(budget.key)
            case Removed(key=key):
                self._known.pop(key, None)
                self.unreadable.discard(key)
            case Refused(key=key):
                self.unreadable.add(key)
            case Replaced(objects=objects, refused=refused):
                budgets = (one for one in objects if isinstance(one, PodDisruptionBudget))
                self._known = {one.key: one for one in budgets}
                self.unreadable = {one.key for one in refused}
                self.listed = True

    def go_without(self) -> None:
        """Plan without budgets: they cannot be read. For advice only."""
        self.listed = self.unknown = True

    def go_with(self) -> None:
        """Wait for the list of budgets, which can be read."""
        if self.unknown:
            self.listed = self.unknown = False


log = structlog.get_logger()

AGAIN, LONGEST_AGAIN = 5.0, 300.0
"""Seconds until an eviction that was not allowed is tried again, doubling"""
PAUSED = 1.0
"""Seconds until a try while writes are paused"""


class Evictor(Struct, eq=False):
    """Remembers how often a pod could not be evicted, and how many were."""

    _evictions: Evictions
    _rates: Rates
    _pause: Pause
    clock: Callable[[], float]
    report: Report
    """Gets every eviction that was granted"""
    requests: EvictionRequests | None = None
    """With these, others get `patience` seconds to end a pod before it is evicted"""
    patience: float = 0.0
    _refused: dict[str, int] = {}
    """Uid of a pod -> how often it could not be evicted for the plan that is carried out"""
    _unanswered: dict[str, Decision] = {}
    """Uid of a pod without an answer, or that others may end -> what to report if it leaves"""
    _asked: dict[str, tuple[str, float]] = {}
    """Uid -> namespace, and when others were asked to end the pod"""
    _old: bool = True
    """Whether an earlier leader may have asked"""

    def wait(self, pods: int = 1) -> float:
        """Seconds until the rates allow the evictions of so many pods; 0 if they do."""
        return self._rates.wait(self.clock(), pods)

    async def evict(self, victim: Victim, granted: Decision) -> float | None:
        """Evict one pod, and report `granted` if the server agrees. Raises Rejected.

        None: the pod leaves, or is gone. Otherwise the seconds after which to try again: a budget does not
        allow it now, or there was no answer, so that it may leave all the same.
        """
        try:
            self._pause.check()
            if (wait := await self._ask(victim, granted)) > 0:
                return wait
            await self._evictions.evict(victim.key, victim.uid)
        except Paused:
            return PAUSED
        except Gone:
            self.leaves(victim)
            return None
        except Retry as exc:
            if isinstance(exc, Undecided):
                self._rates.count(self.clock())
                self._unanswered[victim.uid] = granted
            elif isinstance(exc, Protected):
                self._unanswered.pop(victim.uid, None)  # if the pod leaves now, others deleted it
            return self.later(victim, exc)
        self._rates.count(self.clock())
        self._unanswered.pop(victim.uid, None)
        self.report(granted)
        return None

    async def check(self, victims: Iterable[Victim]) -> float | None:
        """Ask whether each of these pods could be evicted now; none of them is. Raises Rejected.

        None: each could alone. Otherwise the seconds after which to ask again.
        """
        for victim in victims:
            try:
                self._pause.check()
                await self._evictions.evict(victim.key, victim.uid, dry_run=True)
            except Paused:
                return PAUSED
            except Gone:
                continue
            except Retry as exc:
                return self.later(victim, exc)
        return None

    def later(self, victim: Victim, why: ReconcilerError) -> float:
        """Seconds until the eviction of a pod is tried again after an error, more each time."""
        times = self._refused[victim.uid] = self._refused.get(victim.uid, 0) + 1
        after = why.after if isinstance(why, Retry) else 0.0
        delay = max(after, min(AGAIN * 2.0 ** min(times, 10), LONGEST_AGAIN))
        log.info("eviction not allowed now", pod=str(victim.key), error=str(why), pause=round(delay, 3))
        return delay

    async def _ask(self, victim: Victim, granted: Decision) -> float:
        """Seconds to wait for others who may end a pod; 0 if it is to be evicted now (EVR-1)."""
        now = self.clock()
        _, since = self._asked.get(victim.uid, ("", now))
        if self.requests is None or now - since >= self.patience:
            return 0.0
        if not await self.requests.ask(victim.key, victim.uid):
            return 0.0
        if victim.uid not in self._asked:
            log.info("others asked to end the pod (preview)", pod=str(victim.key), pause=self.patience)
        self._asked[victim.uid] = victim.key.namespace, since
        self._unanswered[victim.uid] = granted  # if it leaves now, it does so because it was asked
        return min(AGAIN, since + self.patience - now)

    def stand_by(self) -> None:
        """Another process leads, and may ask."""
        self._asked, self._old = {}, True

    async def withdraw(self) -> None:
        """Ask for no eviction any more: no plan is carried out (EVR-2). What fails is tried again later."""
        self._unanswered.clear()
        self._refused.clear()
        if self.requests is None:
            return
        # Another plan may begin meanwhile, and ask for evictions, or end, and withdraw these as well.
        asked, old, self._asked, self._old = self._asked, self._old, {}, False
        try:
            if old:
                await self.requests.withdraw_all()
            for uid, (namespace, _) in asked.items():
                await self.requests.withdraw(namespace, uid)
        except ReconcilerError as exc:
            self._asked, self._old = {**asked, **self._asked}, old or self._old
            log.info("eviction requests (preview) not withdrawn yet", error=str(exc))

    def leaves(self, victim: Victim) -> None:
        """Report an eviction that had no answer as granted: the pod leaves, or is gone."""
        if (granted := self._unanswered.pop(victim.uid, None)) is not None:
            self.report(granted)


class Purpose(IntEnum):
    """What pods are evicted for. The lower number comes first."""

    PREEMPTION = 0
    REBALANCING = 1


class Turns:
    """Whose plan is carried out, and who waits for that."""

    def __init__(self) -> None:
        self._holder: Purpose | None = None
        self._asked: set[Purpose] = set()

    def take(self, purpose: Purpose) -> bool:
        """Begin a plan. False while another one is carried out, or something more important waits."""
        self._asked.add(purpose)
        if self._holder not in (None, purpose) or self.yields(purpose):
            return False
        self._asked.discard(purpose)
        self._holder = purpose
        return True

    def end(self, purpose: Purpose) -> None:
        """Carry out nothing any more, and wait for nothing."""
        self._asked.discard(purpose)
        if self._holder is purpose:
            self._holder = None

    @property
    def idle(self) -> bool:
        """Whether no plan is carried out."""
        return self._holder is None

    def yields(self, purpose: Purpose) -> bool:
        """Whether something more important waits for its turn, or has it."""
        there = self._asked if self._holder is None else {*self._asked, self._holder}
        return any(other < purpose for other in there)
