"""Searches room for the pods of a Workload: on the loop within a step limit, otherwise in a thread."""

from collections.abc import Callable, Sequence

from reconciler.aio.collector import postponed
from reconciler.aio.worker_thread import Closed, ShouldContinue, WorkerThread
from reconciler.allocation.dra.budget import Budget, StepLimit, Unfinished, WhileWanted
from reconciler.allocation.gangs import decide_gang
from reconciler.allocation.gangs.question import GangGranted, GangQuestion, GangUnsatisfied, Seat
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.planner import NOT_OURS
from reconciler.state.devices.snapshot.fork import Forked
from reconciler.state.nodes.demand import demand
from reconciler.state.nominations.nomination import HeldPlace, Nominee, devices_of
from reconciler.state.trial import Trial

QUICK_STEPS = 100
"""Nodes and devices that are tried on the loop, about 0.25 ms each"""
REPEATS = 3
"""How often an answer may be outdated by events before the Workload waits for its next turn"""
SELDOM = 16
"""Search steps between two checks whether the answer is still wanted"""

QUICK_PODS = 64
"""Pods whose Workload is built and tried on the loop: more than that take too long"""

Ask = Callable[[], Sequence[GangQuestion]]
"""Builds the gangs of a Workload. Other threads call it, too: it only looks up objects"""
Answer = tuple[HeldPlace, ...] | GangUnsatisfied


class WorkloadSearch:
    """One search at a time."""

    def __init__(self, intake: Intake, ours: Ownership, *, steps: int) -> None:
        """`steps` limits the search for one gang."""
        self._intake, self._ours, self._steps = intake, ours, steps
        self._thread = WorkerThread("kueue")

    def close(self) -> None:
        """Stop a running search. Its caller gets no answer."""
        self._thread.close()

    async def answer(self, ask: Ask, pods: int, own: frozenset[Nominee]) -> Answer | None:
        """Places for all pods, or why there are none. Places are possible when this returns, and in no trial.

        `ask` returns the gangs, in a thread if there are many `pods`; raises what `ask` raises. None: the
        state changes faster than the search ends.
        """
        try:
            if pods <= QUICK_PODS:
                with Trial(self._intake.store, self._intake.nodes, supposed=False, own=own) as trial:
                    return self._decided(ask(), trial, StepLimit(QUICK_STEPS))
        except Unfinished:
            pass
        for _ in range(REPEATS):
            before = self._state(own)
            try:
                found = await self._in_thread(ask, own)
            except (Unfinished, Closed):
                return None
            if isinstance(found, GangUnsatisfied) or self._state(own) == before:
                return found
        return None

    def _state(self, own: frozenset[Nominee]) -> tuple[int, int]:
        return self._intake.store.snapshot_for(own).version, self._intake.nodes.serial

    async def _in_thread(self, ask: Ask, own: frozenset[Nominee]) -> Answer:
        fork, nodes = Forked.fork_of(self._intake.store), self._intake.nodes.fork()

        def search(wanted: ShouldContinue) -> Answer:
            with postponed(), Trial(fork.store(), nodes, supposed=False, own=own) as trial:
                return self._decided(ask(), trial, WhileWanted(wanted, SELDOM))

        return await self._thread.run(search)

    def _decided(self, asked: Sequence[GangQuestion], trial: Trial, budget: Budget) -> Answer:
        """All gangs beside each other, in their order."""
        places: dict[str, HeldPlace] = {}
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
            _add(places, found.seats, question)
        return tuple(places.values())


def _add(places: dict[str, HeldPlace], seats: Sequence[Seat], question: GangQuestion) -> None:
    """Add what the pods of a gang take to the places, one for each node."""
    pods = {one.pod.key: one.pod for one in question.members}
    for seat in seats:
        before = places.get(seat.node, HeldPlace(seat.node))
        room = dict(before.room)
        for resource, amount in demand(pods[seat.pod]).items():
            room[resource] = room.get(resource, 0) + amount
        devices = (*before.devices, *devices_of(seat.plans))
        places[seat.node] = HeldPlace(seat.node, devices, tuple(room.items()))
