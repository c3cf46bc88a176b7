"""What those have in common that evict pods: to make room for pending pods, and to rebalance."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import ClassVar

import structlog
from msgspec import Struct

from reconciler.aio.worker_thread import Closed, WorkerThread
from reconciler.api.objects.core import Pod, PodDisruptionBudget
from reconciler.control.decisions.declaration import Report
from reconciler.control.intake import Intake
from reconciler.control.relocation.evictor import Evictor, KnownBudgets, Purpose, Turns
from reconciler.control.relocation.ground import Ground, started_after
from reconciler.errors import Inconsistent
from reconciler.state.nodes.table import Nodes
from reconciler.state.nominations import NOBODY, HeldPlace, Nomination, Nominee
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
        deadline = (self._means.now() + timedelta(seconds=seconds)).astimezone(UTC)
        until = deadline.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"
        held = Nomination(nominee, tuple(places), priority, self._clock() + seconds, until, uid)
        self._intake.nominating.hold(held, why)
