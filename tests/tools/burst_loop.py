"""The loop of claims without a server: writes take a while and may fail, and every grant is checked.

A grant must be what a decision of its own gives at the moment from which its devices count as held.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any, TypeVar, cast

from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.placement.placing import Placement
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted, Plan
from reconciler.cluster.writer import Writer
from reconciler.control.background_search import BackgroundSearch
from reconciler.control.claim_handler import ClaimHandler
from reconciler.control.decider import Decider
from reconciler.control.decisions.declaration import Decision, Report
from reconciler.control.handler import Answer, Decide, Decided
from reconciler.control.intake import Intake, Journal
from reconciler.control.ownership import Ownership
from reconciler.control.planner import Planner
from reconciler.control.settler import HandOver, Settler
from reconciler.control.units import Unit
from reconciler.control.waiting import Pending
from reconciler.state.store import Store
from reconciler.state.trial import Forked
from tests.tools.scripted_loop import LoopStage
from tests.tools.unit_pictures import intake

OURS = Ownership(all_claims=True, alone=True)

Write = Callable[[ObjectKey], Exception | float]
"""What becomes of a write: it fails, or takes so many seconds"""


class SlowWriter(Writer):
    """Writes objects back as they are known, instead of sending requests."""

    def __init__(self, happens: Write, store: Store) -> None:
        """Without a client."""
        self._happens = happens
        self._store = store
        self._versions = count(1_000_000)
        self.withdrawn: list[ObjectKey] = []

    async def write(self, plan: Plan, claim: ResourceClaim) -> ResourceClaim:
        await self._wait(claim.key)
        return self._allocated(claim, plan)

    async def ungate(self, pod: Pod) -> Pod:
        await self._wait(pod.key)
        spec = pod.spec.model_copy(update={"scheduling_gates": ()})
        return pod.model_copy(update={"spec": spec, "metadata": self._newer(pod)})

    async def read_claim(self, key: ObjectKey) -> ResourceClaim | None:
        return self._store.claims.get(key)

    async def withdraw(self, claim: ResourceClaim) -> ResourceClaim:
        self.withdrawn.append(claim.key)
        return self._allocated(claim, None)

    async def _wait(self, key: ObjectKey) -> None:
        happens = self._happens(key)
        await asyncio.sleep(0.01 if isinstance(happens, Exception) else happens)
        if isinstance(happens, Exception):
            raise happens

    def _allocated(self, claim: ResourceClaim, plan: Plan | None) -> ResourceClaim:
        allocation = None if plan is None else plan.allocation
        status = claim.status.model_copy(update={"allocation": allocation})
        return claim.model_copy(update={"status": status, "metadata": self._newer(claim)})

    def _newer(self, thing: ResourceClaim | Pod) -> Any:
        return thing.metadata.model_copy(update={"resource_version": str(next(self._versions))})


class Checked(ClaimHandler):
    """Checks each grant when it is assumed."""

    stage: Any = None
    """The `BurstStage` that it is part of"""

    def decide(self, unit: Unit, asked: Decide, others: Iterable[Unit]) -> Sequence[Answer]:
        answers = super().decide(unit, asked, others)
        self.stage.batches.append(len(answers))
        return answers

    def assume(self, asked: Decide, granted: Granted) -> None:
        self.stage.check(asked, granted)
        super().assume(asked, granted)

    async def write(self, unit: Unit, asked: Decide, granted: Granted, decided: Decided) -> None:
        self.stage.written.append((unit, granted))
        await super().write(unit, asked, granted, decided)


H = TypeVar("H", bound=ClaimHandler)


def handler_of_claims(
    kind: type[H],
    intake: Intake,
    writer: Writer,
    report: Report = lambda _: None,
    *,
    clock: Callable[[], float] = lambda: 0.0,
    pending: Pending | None = None,
    steps: int = 10_000,
) -> H:
    """The handler of claims as the process builds it, of a class of ours."""
    planner = Planner(intake.store, intake.roster, intake.placement, OURS, intake.reclaimed)
    decider = Decider(OURS, steps=steps)
    return kind(
        intake,
        planner,
        decider,
        BackgroundSearch(intake, planner, decider),
        writer,
        Settler(intake, writer, report),
        HandOver(intake, cast("Any", None)),
        Pending() if pending is None else pending,
        clock=clock,
        now=lambda: datetime.now(UTC),
        report=report,
    )


class BurstStage(LoopStage):
    """The loop over real decisions, with several workers."""

    def __init__(self, happens: Write, *, journal: Journal | None = None) -> None:
        told: list[Decision] = []
        super().__init__(intake(report=told.append, ours=OURS, journal=journal), told)
        self.written: list[tuple[Unit, Granted]] = []
        """In the order in which the writes began"""
        self.batches: list[int] = []
        """How many units were answered at once"""
        self.writer = SlowWriter(happens, self.intake.store)
        handler = handler_of_claims(
            Checked, self.intake, self.writer, self.reporter.report, clock=self.clock, pending=self.pending
        )
        handler.stage = self
        self.run_with([handler], self.writer, OURS)

    def check(self, question: Decide, granted: Granted) -> None:
        """Compare a grant with a decision of its own."""
        store, nodes = Forked.fork_of(self.intake.store).store(), self.intake.nodes.fork()
        for claim in question.claims:
            store.apply(Changed("ResourceClaim", claim))
        placement, snapshot = Placement(nodes, supposed=False), store.snapshot()
        if question.pod is None:
            among = placement.for_claim(snapshot).nodes
        else:
            among = placement.for_pod(question.pod, question.held, snapshot).nodes
        alone = allocate(question.claims, snapshot, nodes=among)
        assert isinstance(alone, Granted), f"{question.claims} were given {granted.plans}"
        assert [plan.allocation for plan in granted.plans] == [plan.allocation for plan in alone.plans]
