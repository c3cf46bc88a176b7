"""The loop of claims without a server: writes take a while and may fail, and every grant is checked.

A grant must be what a decision of its own gives at the moment from which its devices count as held.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from typing import Any, cast

from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.placement.placing import Placement
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted, Plan
from reconciler.cluster.writer import Writer
from reconciler.control.background_search import BackgroundSearch
from reconciler.control.claim_handler import ClaimGrant, ClaimHandler, ClaimQuestion
from reconciler.control.decider import Decider
from reconciler.control.decisions.declaration import Decision, Reporter
from reconciler.control.fence import Fence
from reconciler.control.handler import Decided
from reconciler.control.intake import Intake, Journal
from reconciler.control.loop import Reconciler
from reconciler.control.ownership import Ownership
from reconciler.control.planner import Planner
from reconciler.control.settler import HandOver, Settler
from reconciler.control.units import Unit
from reconciler.control.waiting import Pending
from reconciler.state.store import Store
from reconciler.state.trial import Forked
from tests.tools.unit_pictures import intake, put

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

    stage: "BurstStage"

    def decide(self, question: ClaimQuestion, others: Iterable[Unit]) -> Sequence[Any]:
        answers = super().decide(question, others)
        self.stage.batches.append(len(answers))
        return answers

    def assume(self, grant: ClaimGrant) -> None:
        self.stage.check(grant)
        super().assume(grant)

    async def write(self, grant: ClaimGrant, decided: Decided) -> None:
        self.stage.written.append((grant.question.unit, grant.granted))
        await super().write(grant, decided)


class BurstStage:
    """The loop over real decisions, with several workers."""

    def __init__(self, happens: Write, *, journal: Journal | None = None) -> None:
        clock = asyncio.get_running_loop().time
        self.told: list[Decision] = []
        self.written: list[tuple[Unit, Granted]] = []
        """In the order in which the writes began"""
        self.answers = 0
        self.batches: list[int] = []
        """How many units were answered at once"""
        self.intake: Intake = intake(report=self.told.append, ours=OURS, journal=journal)
        self.intake.listed.set()
        self.writer = writer = SlowWriter(happens, self.intake.store)
        reporter = Reporter(lambda: 0.0, [self.told.append], answered=self._answered)
        planner = Planner(
            self.intake.store, self.intake.roster, self.intake.placement, OURS, self.intake.reclaimed
        )
        self._planner = planner
        pending, decider = Pending(), Decider(OURS, steps=10_000)
        handler = Checked(
            self.intake,
            planner,
            decider,
            BackgroundSearch(self.intake, planner, decider),
            writer,
            Settler(self.intake, writer, reporter.report),
            HandOver(self.intake, cast("Any", None)),
            pending,
            clock=clock,
            now=lambda: datetime.now(UTC),
            report=reporter.report,
        )
        handler.stage = self
        self.fence = Fence(self.intake, writer, OURS, clock=clock, patience=1.0)
        self.reconciler = Reconciler(
            self.intake, [handler], reporter, clock=clock, fence=self.fence, pending=pending
        )

    def _answered(self, *_: object) -> None:
        self.answers += 1

    def news(self, *raws: dict[str, Any]) -> None:
        """The watch tells of these objects."""
        put(self.intake, *raws)

    def check(self, grant: ClaimGrant) -> None:
        """Compare a grant with a decision of its own."""
        question, granted = grant.question.decide, grant.granted
        store, nodes = Forked.fork_of(self.intake.store).store(), self.intake.nodes.fork()
        for claim in question.claims:
            store.apply(Changed("ResourceClaim", claim))
        placement, snapshot = Placement(nodes, supposed=False), store.snapshot()
        if question.pod is None:
            among = placement.for_claim(snapshot).nodes
        else:
            among = placement.for_pod(question.pod, question.held, snapshot).nodes
        alone = allocate(question.claims, snapshot, nodes=among)
        assert isinstance(alone, Granted), f"{grant.question.unit} was given {granted.plans}"
        assert [plan.allocation for plan in granted.plans] == [plan.allocation for plan in alone.plans]

    @asynccontextmanager
    async def at_work(self, workers: int) -> AsyncIterator[None]:
        """Some workers beside the block; they are stopped at its end."""
        await self.fence.raise_()
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self.reconciler.work())
            yield
            self.reconciler.stop()
