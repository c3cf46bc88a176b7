"""What those have in common that evict pods, and which pending units may have others evicted."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import ClassVar, NamedTuple

import structlog
from msgspec import Struct

from reconciler.aio.tasks import Closed, ShouldContinue, WorkerThread
from reconciler.allocation.placement.order import queue_key
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod, PodDisruptionBudget, claims_of
from reconciler.api.objects.gangs import gang_of
from reconciler.control.decisions.declaration import Report
from reconciler.control.gangs.planner import GangPlanner, Solve
from reconciler.control.handler import Decide
from reconciler.control.intake import Intake
from reconciler.control.planner import Planner
from reconciler.control.relocation.evictor import Evictor, KnownBudgets, Purpose, Turns
from reconciler.control.relocation.ground import Ground, Victim, started_after
from reconciler.control.units import Kind, Unit
from reconciler.control.waiting import Pending
from reconciler.errors import Inconsistent
from reconciler.state.nodes.table import Nodes
from reconciler.state.nominations import NOBODY, HeldPlace, Nomination, Nominee, of_gang, of_pod
from reconciler.state.pods.groups import PodGroups
from reconciler.state.trial import Fork, Forked

log = structlog.get_logger()


class Means(Struct, frozen=True):
    """Shared by those who plan for different purposes."""

    intake: Intake
    budgets: KnownBudgets
    evictor: Evictor
    turns: Turns
    leads: Callable[[], bool]
    """Whether this process may write"""
    clock: Callable[[], float]
    """That of the loop"""
    now: Callable[[], datetime]
    report: Report
    written: Callable[[], Awaitable[None]] | None = None
    """Waits until held room is written down, where it is"""


class Terms(Struct, frozen=True):
    """What the settings allow."""

    evict: bool
    """False: plans are shown as advice"""
    hold_seconds: float
    """How long room is held after the latest eviction for it, and how long its pod may take to run there"""
    cooldown_seconds: float
    """How long a pod that has started is left alone"""


class Question(Struct, frozen=True):
    """The state that a plan is made from. Nothing in it changes while a thread plans."""

    fork: Fork
    nodes: Nodes
    groups: PodGroups
    budgets: tuple[PodDisruptionBudget, ...]
    spared: Callable[[Pod], bool]
    """Pods that started too recently to be evicted"""
    own: frozenset[Nominee] = NOBODY
    """For whom room may be held that the plan uses"""


class Relocator:
    """Takes steps again and again: plans in a thread, one plan at a time is carried out."""

    purpose: ClassVar[Purpose]
    failure: ClassVar[str]
    """The event in the log when a step ended in an internal error"""

    def __init__(self, means: Means, terms: Terms) -> None:
        self._means, self._terms = means, terms
        self._intake, self._store = means.intake, means.intake.store
        self._clock, self._report = means.clock, means.report
        self._thread = WorkerThread(self.purpose.name.lower())

    async def run(self) -> None:
        """Take steps until cancelled. Cancelled during an eviction: it may have been granted."""
        try:
            while True:
                began = self._clock()
                try:
                    await self._step()
                    if not self._means.leads():
                        self._means.evictor.stand_by()
                    elif self._means.turns.idle:
                        await self._means.evictor.withdraw()
                except Closed:
                    return
                except Inconsistent:
                    raise
                except Exception:
                    # Allocation must go on without it. Room that is held expires.
                    log.exception(self.failure)
                    self._failed()
                await asyncio.sleep(self._pause(self._clock() - began))
        finally:
            self._thread.close()

    async def _step(self) -> None:
        raise NotImplementedError

    def _failed(self) -> None:
        """A step ended in an internal error."""
        raise NotImplementedError

    def _pause(self, spent: float) -> float:
        """Seconds until the next step, after one that took so long."""
        raise NotImplementedError

    def _question(self, own: frozenset[Nominee]) -> Question:
        since = self._means.now() - timedelta(seconds=self._terms.cooldown_seconds)
        return Question(
            Forked.fork_of(self._store),
            self._intake.nodes.fork(),
            self._intake.groups.fork(),
            self._means.budgets.known,
            partial(started_after, since),
            own,
        )

    def _ground(self, question: Question | None = None) -> Ground:
        """The present state; only that of a question stays as it is."""
        state = self._intake if question is None else question
        return Ground.of(self._store, state.nodes, state.groups, self._means.budgets.known)

    @property
    def _unreadable(self) -> str:
        """A budget that cannot be read, so that nobody knows which pods it protects; empty if all can."""
        budgets = self._means.budgets.unreadable
        return f"PodDisruptionBudget {min(budgets)}" if budgets else ""

    def _hold_places(
        self,
        nominee: Nominee,
        places: Sequence[HeldPlace],
        priority: int,
        uid: str,
        why: str,
        *,
        more: float = 0.0,
    ) -> None:
        """Hold places from now on. `uid` is that of the pod, if it is known."""
        seconds = self._terms.hold_seconds + more
        until = self._deadline(seconds)
        held = Nomination(nominee, tuple(places), priority, self._clock() + seconds, until, uid)
        self._intake.nominating.hold(held, why)

    def _deadline(self, seconds: float) -> str:
        """A moment that others can read."""
        deadline = (self._means.now() + timedelta(seconds=seconds)).astimezone(UTC)
        return deadline.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


class RoomPlan(Struct, frozen=True):
    """Who has to leave so that something fits."""

    victims: tuple[Victim, ...]
    """In the order in which they leave; empty if it fits without, or not at all"""
    places: tuple[HeldPlace, ...]
    """Where it fits then; empty if it does not"""
    awaits: bool = False
    """Whether it fits when pods that are being deleted are gone, besides the victims"""
    refused: str = ""
    """Why no room can be made by evictions that are allowed; empty if it can"""
    advice: str = ""
    """Set if room can be made, but not by us: why"""

    @property
    def acts(self) -> bool:
        """Whether it may be carried out."""
        return not self.refused and not self.advice


class RoomQuestion(Question, frozen=True, kw_only=True):
    """What a plan to make room is asked for."""

    need: Decide | Solve
    sharing: tuple[tuple[Pod, tuple[ResourceClaim, ...], tuple[int, ...]], ...]
    """See `Candidates.sharing`"""


PlanRoom = Callable[[RoomQuestion, ShouldContinue], RoomPlan]
"""Makes a plan, in any thread"""


MOST = 1000
"""Units whose plans are kept"""


class RoomLine(NamedTuple):
    """The plan for one unit."""

    unit: Unit
    plan: RoomPlan


class StandingRoom:
    """Plans that were made, the most recent last."""

    def __init__(self) -> None:
        self._plans: dict[Unit, RoomPlan] = {}

    @property
    def lines(self) -> tuple[RoomLine, ...]:
        """The plans that say how room can be made."""
        return tuple(RoomLine(unit, plan) for unit, plan in self._plans.items() if plan.victims)

    def counts(self) -> dict[str, float]:
        """Result -> pending units: `possible`, `advice_only` if nobody but a person may act, `none`."""
        found = {"possible": 0.0, "advice_only": 0.0, "none": 0.0}
        for plan in self._plans.values():
            found["none" if not plan.victims else "advice_only" if plan.advice else "possible"] += 1
        return found

    def note(self, unit: Unit, plan: RoomPlan) -> bool:
        """Keep a plan. Returns whether it differs from the one before."""
        before = self._plans.pop(unit, None)
        self._plans[unit] = plan
        while len(self._plans) > MOST:
            del self._plans[next(iter(self._plans))]
        return before != plan

    def keep(self, units: Collection[Unit]) -> None:
        """Forget units that are not pending any more."""
        known = set(units)
        self._plans = {unit: plan for unit, plan in self._plans.items() if unit in known}


class Candidates:
    """Reads the state. Changes nothing."""

    def __init__(
        self, intake: Intake, pending: Pending, planner: Planner, gangs: GangPlanner, classes: frozenset[str]
    ) -> None:
        """`classes` are the PriorityClasses whose pods may preempt."""
        self._intake = intake
        self._pending = pending
        self._planner = planner
        self._gangs = gangs
        self._classes = classes

    def units(self) -> list[Unit]:
        """The pending units that may preempt, the most important first."""
        found = [unit for unit, _, _ in self._pending if self._may_preempt(unit)]
        return sorted(found, key=lambda unit: min(map(queue_key, self.pods(unit))))

    def pods(self, unit: Unit) -> list[Pod]:
        """The gated pods of a unit; none for a claim alone."""
        if unit.kind is Kind.GANG:
            return self._intake.units.gated(unit.gang)
        pod = self._intake.store.pods.get(unit.key) if unit.kind is Kind.POD else None
        return [self._intake.groups.ranked(pod)] if pod is not None and pod.gated else []

    def judged(self, unit: Unit) -> list[Pod]:
        """The pods that must agree that others leave: those of a unit, and the gated pods that share claims
        which need devices. Source: MAKE-1, MAKE-5.
        """
        pods, sharers = self.pods(unit), self.sharers(unit)
        if not sharers:  # as of every gang, which may have many claims
            return pods
        todo = {claim.key for claim in self._claims(pods) if claim.allocation is None}
        return [*pods, *(pod for pod in sharers if not todo.isdisjoint(claims_of(pod)))]

    def sharers(self, unit: Unit) -> list[Pod]:
        """The other gated pods that use any claim of a pod; none for a gang."""
        if unit.kind is Kind.GANG:
            return []
        return [
            other
            for pod in self.pods(unit)
            for other, _, _ in self._planner.sharing(pod, self._claims([pod]))
        ]

    def _claims(self, pods: Iterable[Pod]) -> tuple[ResourceClaim, ...]:
        """The claims of pods that exist."""
        known = self._intake.store.claims
        return tuple(known[key] for pod in pods for key in claims_of(pod) if key in known)

    def need(self, unit: Unit) -> Decide | Solve | None:
        """What a unit needs now; None if it is not devices."""
        if unit.kind is Kind.GANG:
            solve = self._gangs.next(unit.gang)
            return solve if isinstance(solve, Solve) else None
        need = self._planner.next(unit)
        return need if isinstance(need, Decide) else None

    def sharing(
        self, need: Decide | Solve
    ) -> tuple[tuple[Pod, tuple[ResourceClaim, ...], tuple[int, ...]], ...]:
        """The other gated pods that use the claims of a pod: positions are those in its claims that need
        devices, then in those that it holds. See `Planner.sharing`.
        """
        if not isinstance(need, Decide) or need.pod is None:
            return ()
        return tuple(self._planner.sharing(need.pod, (*need.claims, *need.held)))

    def nominee(self, unit: Unit) -> Nominee:
        """For whom its room is held; for the first group of a tree, since pods do not name their tree."""
        if unit.kind is not Kind.GANG:
            return of_pod(unit.key)
        named = [gang for pod in self.pods(unit) if (gang := gang_of(pod)) is not None]
        return of_gang(min(named, default=unit.gang))

    def _may_preempt(self, unit: Unit) -> bool:
        pods = self.pods(unit)
        return bool(pods) and all(map(self._agrees, pods)) and all(map(self._agrees, self.judged(unit)))

    def _agrees(self, pod: Pod) -> bool:
        return pod.spec.priority_class_name in self._classes and pod.spec.preemption_policy != "Never"
