"""Searches places for gangs: on the loop within a step limit, otherwise in a thread on forks.

An answer from the thread is checked against the present state before it is used.
"""

import dataclasses
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from reconciler.aio.worker_thread import ShouldContinue
from reconciler.allocation.dra.budget import Budget, StepLimit, Unfinished, WhileWanted
from reconciler.allocation.gangs.deciding import decide_gang
from reconciler.allocation.gangs.kinds import GangGranted, GangQuestion, GangUnsatisfied, Member
from reconciler.allocation.gangs.places import GangNodes, gang_nodes, gang_still_fits
from reconciler.api.objects.core import Pod
from reconciler.control.background_search import Lane
from reconciler.control.gangs.planner import GangPlanner, Solve
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.planner import NOT_OURS
from reconciler.control.units import Unit, gang_unit
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.nominations import Nominee, own_of_all
from reconciler.state.trial import Forked, Trial

QUICK_STEPS = 100
"""Nodes and devices that are tried on the loop, about 0.25 ms each. A gang of 64 pods on 64 alike nodes
takes 80."""
REPEATS = 3
"""How often an answer may be outdated by events before the gang backs off."""
SELDOM = 16
"""Search steps between two checks whether the answer is still wanted"""

Answer = GangGranted | GangUnsatisfied


class Found(NamedTuple):
    """An answer."""

    answer: Answer
    current: bool
    """Whether it was found in the present state, not in an earlier one"""


class _InThread(Struct, frozen=True):
    """The answer of a search in a thread, and the state that it was found from."""

    solve: Solve
    snapshot: Snapshot
    serial: int
    answer: Answer


class GangSearch:
    """One long search runs at a time; other gangs wait for the thread, and no others for them."""

    def __init__(self, intake: Intake, planner: GangPlanner, ours: Ownership, *, steps: int) -> None:
        """`steps` limits the search for one gang."""
        self._intake = intake
        self._store = intake.store
        self._planner = planner
        self._ours = ours
        self._steps = steps
        self._lane: Lane[_InThread] = Lane("gangs", intake)
        self._outdated: dict[Unit, int] = {}
        """Gangs whose search takes long, and how many answers to them came too late"""

    def close(self) -> None:
        """Stop a running search. Its gang gets no answer."""
        self._lane.close()

    def answer(self, solve: Solve) -> Found | None:
        """Places or a refusal. Places are possible now, and in no trial.

        A refusal may be from an earlier state, if the state changes faster than the search ends. None: the
        gang is requeued, at the latest when the thread is free.
        """
        unit = gang_unit(solve.question.gang)
        if self._lane.works_for(unit):
            return None
        found = self._lane.take(unit)
        if found is not None and _is_same(solve.question, found.solve.question):
            if self._is_true(found, solve):
                self._outdated.pop(unit, None)
                return Found(found.answer, current=False)
            self._outdated[unit] = self._outdated.get(unit, 0) + 1
            if self._outdated[unit] >= REPEATS:
                del self._outdated[unit]
                if isinstance(found.answer, GangUnsatisfied):
                    return Found(found.answer, current=False)
                self._intake.put(unit, after=self._intake.queue.failed(unit))
                return None
        else:
            self._outdated.pop(unit, None)
            try:
                return Found(self._on_loop(solve), current=True)
            except Unfinished:
                pass
        self._search_in_thread(unit, solve)
        return None

    def picture(self, solve: Solve) -> GangNodes | None:
        """What the gang sees of nodes now, for the journal."""
        with Trial(self._store, self._intake.nodes, supposed=False) as trial:
            return gang_nodes(self._restricted(solve), trial)

    def _on_loop(self, solve: Solve) -> Answer:
        """The trial ends before anybody sees it: nothing stays assumed that is not written."""
        with Trial(self._store, self._intake.nodes, supposed=False, own=_own(solve)) as trial:
            return self._decided(solve, trial, StepLimit(QUICK_STEPS))

    def _search_in_thread(self, unit: Unit, solve: Solve) -> None:
        before, serial = self._store.snapshot_for(_own(solve)), self._intake.nodes.serial
        fork, nodes = Forked.fork_of(self._store), self._intake.nodes.fork()

        def search(wanted: ShouldContinue) -> _InThread:
            budget = WhileWanted(lambda: wanted() and self._has(solve), SELDOM)
            with Trial(fork.store(), nodes, supposed=False, own=_own(solve)) as trial:
                return _InThread(solve, before, serial, self._decided(solve, trial, budget))

        self._lane.start(unit, search)

    def _decided(self, solve: Solve, trial: Trial, budget: Budget) -> Answer:
        answer = decide_gang(self._restricted(solve), trial, steps=self._steps, budget=budget)
        for seat in answer.seats if isinstance(answer, GangGranted) else ():
            for plan in seat.plans:
                why = self._ours.trespass(trial.store.claims[plan.claim], plan.allocation)
                if why is not None:
                    return GangUnsatisfied(NOT_OURS, f"claim {plan.claim}: {why}")
        return answer

    def _restricted(self, solve: Solve) -> GangQuestion:
        """The question with only our devices."""
        members = (
            replace(member, claims=tuple(map(self._ours.restricted, member.claims)))
            for member in solve.question.members
        )
        return dataclasses.replace(solve.question, members=tuple(members))

    def _has(self, solve: Solve) -> bool:
        """Whether the claims are unchanged. Called by the thread: only dictionary lookups."""
        claims = self._store.claims
        return all(
            claims.get(claim.key) is claim for member in solve.question.members for claim in member.claims
        )

    def _is_true(self, found: _InThread, solve: Solve) -> bool:
        """Whether an answer from an earlier state is true now."""
        if isinstance(found.answer, GangUnsatisfied):
            version = self._store.snapshot_for(_own(solve)).version
            return version == found.snapshot.version and found.serial == self._intake.nodes.serial
        with Trial(self._store, self._intake.nodes, supposed=False, own=_own(solve)) as trial:
            return gang_still_fits(self._restricted(solve), found.answer, found.snapshot, trial)


def _own(solve: Solve) -> frozenset[Nominee]:
    """For whom is decided: what is nominated for others is held."""
    return own_of_all(member.pod for member in solve.question.members)


def _is_same(now: GangQuestion, then: GangQuestion) -> bool:
    """Whether nothing that matters to an answer has changed in the objects of a gang."""
    return _essence(now) == _essence(then) and all(
        _is_same_member(one, other) for one, other in zip(now.members, then.members, strict=True)
    )


def _essence(question: GangQuestion) -> tuple[object, ...]:
    members = [member.pod.metadata.uid for member in question.members]
    return members, question.least, question.tiers, question.nodes, question.devices


def _is_same_member(now: Member, then: Member) -> bool:
    return (
        _is_same_pod(now.pod, then.pod)
        and list(map(id, now.claims)) == list(map(id, then.claims))
        and list(map(id, now.held)) == list(map(id, then.held))
    )


def _is_same_pod(now: Pod, then: Pod) -> bool:
    """Other fields, such as conditions, change often."""
    return now is then or (now.spec == then.spec and now.metadata.labels == then.metadata.labels)
