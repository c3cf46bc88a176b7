"""Searches room for the pods of a Workload: on the loop within a step limit, otherwise in a thread."""

from collections.abc import Sequence

from reconciler.aio.worker_thread import Closed, ShouldContinue, WorkerThread
from reconciler.allocation.dra.budget import Budget, StepLimit, Unfinished, WhileWanted
from reconciler.allocation.gangs import decide_gang
from reconciler.allocation.gangs.question import GangGranted, GangQuestion, GangUnsatisfied, Seat
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.planner import NOT_OURS
from reconciler.state.devices.snapshot.fork import Forked
from reconciler.state.nominations.nomination import Nominee
from reconciler.state.trial import Trial

QUICK_STEPS = 100
"""Nodes and devices that are tried on the loop, about 0.25 ms each"""
REPEATS = 3
"""How often an answer may be outdated by events before the Workload waits for its next turn"""
SELDOM = 16
"""Search steps between two checks whether the answer is still wanted"""

Answer = tuple[Seat, ...] | GangUnsatisfied


class WorkloadSearch:
    """One search at a time."""

    def __init__(self, intake: Intake, ours: Ownership, *, steps: int) -> None:
        """`steps` limits the search for one gang."""
        self._intake, self._ours, self._steps = intake, ours, steps
        self._thread = WorkerThread("kueue")

    def close(self) -> None:
        """Stop a running search. Its caller gets no answer."""
        self._thread.close()

    async def answer(self, asked: Sequence[GangQuestion], own: frozenset[Nominee]) -> Answer | None:
        """Places for all pods, or why there are none. Places are possible when this returns, and in no trial.

        None: the state changes faster than the search ends.
        """
        try:
            with Trial(self._intake.store, self._intake.nodes, supposed=False, own=own) as trial:
                return self._decided(asked, trial, StepLimit(QUICK_STEPS))
        except Unfinished:
            pass
        for _ in range(REPEATS):
            before = self._state(own)
            try:
                found = await self._in_thread(asked, own)
            except (Unfinished, Closed):
                return None
            if isinstance(found, GangUnsatisfied) or self._state(own) == before:
                return found
        return None

    def _state(self, own: frozenset[Nominee]) -> tuple[int, int]:
        return self._intake.store.snapshot_for(own).version, self._intake.nodes.serial

    async def _in_thread(self, asked: Sequence[GangQuestion], own: frozenset[Nominee]) -> Answer:
        fork, nodes = Forked.fork_of(self._intake.store), self._intake.nodes.fork()

        def search(wanted: ShouldContinue) -> Answer:
            with Trial(fork.store(), nodes, supposed=False, own=own) as trial:
                return self._decided(asked, trial, WhileWanted(wanted, SELDOM))

        return await self._thread.run(search)

    def _decided(self, asked: Sequence[GangQuestion], trial: Trial, budget: Budget) -> Answer:
        """All gangs beside each other, in their order."""
        seats: list[Seat] = []
        for question in asked:
            found = decide_gang(question, trial, steps=self._steps, budget=budget)
            if not isinstance(found, GangGranted):
                return found
            claims = {claim.metadata.uid: claim for one in question.members for claim in one.claims}
            for seat in found.seats:
                for plan in seat.plans:
                    why = self._ours.trespass(claims[plan.uid], plan.allocation)
                    if why is not None:
                        return GangUnsatisfied(NOT_OURS, why)
            seats += found.seats
        return tuple(seats)
