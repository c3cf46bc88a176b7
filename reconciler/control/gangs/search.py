"""Searches places for gangs: on the loop within a step limit, otherwise in a thread; offline at once.

An answer from the thread is checked against the present state before it is used.
"""

import dataclasses
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from reconciler.aio.tasks import ShouldContinue
from reconciler.allocation.dra.budget import UNLIMITED, Budget, StepLimit, Unfinished, WhileWanted
from reconciler.allocation.gangs.deciding import decide_gang
from reconciler.allocation.gangs.kinds import GangGranted, GangQuestion, GangUnsatisfied, Member
from reconciler.allocation.gangs.places import gang_still_fits
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import GangKey, gang_of
from reconciler.api.objects.meta import ApiObject
from reconciler.control.background_search import Lane
from reconciler.control.gangs.planner import GangPlanner, GiveBack, Solve
from reconciler.control.handler import Blocked
from reconciler.control.inputs import Asked
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.planner import NOT_OURS, Planner
from reconciler.control.units import GangRoster, Kind, Roster, Unit, gang_unit
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.nodes.table import Nodes
from reconciler.state.nominations import Nominee, of_gang, own_of_all
from reconciler.state.pods.groups import PodGroups
from reconciler.state.store import Store
from reconciler.state.trial import Forked, Trial, load

QUICK_STEPS = 100
"""Nodes and devices that are tried on the loop, about 0.25 ms each. A gang of 64 pods on 64 alike nodes
takes 80."""
REPEATS = 3
"""How often an answer may be outdated by events before the gang backs off."""
SELDOM = 16
"""Search steps between two checks whether the answer is still wanted"""

Answer = GangGranted | GangUnsatisfied


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

    def answer(self, solve: Solve) -> Answer | None:
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
                return found.answer
            self._outdated[unit] = self._outdated.get(unit, 0) + 1
            if self._outdated[unit] >= REPEATS:
                del self._outdated[unit]
                if isinstance(found.answer, GangUnsatisfied):
                    return found.answer
                self._intake.put(unit, after=self._intake.queue.failed(unit))
                return None
        else:
            self._outdated.pop(unit, None)
            try:
                answer = self.on_loop(solve, StepLimit(QUICK_STEPS))
            except Unfinished:
                pass
            else:
                self._intake.note(Asked((unit,)))
                return answer
        self._search_in_thread(unit, solve)
        return None

    def on_loop(self, solve: Solve, budget: Budget) -> Answer:
        """The trial ends before anybody sees it: nothing stays assumed that is not written."""
        with Trial(self._store, self._intake.nodes, supposed=False, own=_own(solve)) as trial:
            return self._decided(solve, trial, budget)

    def _search_in_thread(self, unit: Unit, solve: Solve) -> None:
        before, serial = self._store.snapshot_for(_own(solve)), self._intake.nodes.serial
        fork, nodes = Forked.fork_of(self._store), self._intake.nodes.fork()

        def search(wanted: ShouldContinue) -> _InThread:
            budget = WhileWanted(lambda: wanted() and self._has(solve), SELDOM)
            with Trial(fork.store(), nodes, supposed=False, own=_own(solve)) as trial:
                return _InThread(solve, before, serial, self._decided(solve, trial, budget))

        if not self._lane.busy:
            self._intake.note(Asked((unit,)))
        self._intake.waiting.mark(unit)
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
    question = solve.question
    return own_of_all(member.pod for member in question.members) | frozenset(map(of_gang, question.groups))


def _is_same(now: GangQuestion, then: GangQuestion) -> bool:
    """Whether nothing that matters to an answer has changed in the objects of a gang."""
    return _essence(now) == _essence(then) and all(
        _is_same_member(one, other) for one, other in zip(now.members, then.members, strict=True)
    )


def _essence(question: GangQuestion) -> tuple[object, ...]:
    members = [member.pod.metadata.uid for member in question.members]
    return members, question.least, question.tiers, question.nodes, question.devices, question.tree


def _is_same_member(now: Member, then: Member) -> bool:
    return (
        _is_same_pod(now.pod, then.pod)
        and list(map(id, now.claims)) == list(map(id, then.claims))
        and list(map(id, now.held)) == list(map(id, then.held))
    )


def _is_same_pod(now: Pod, then: Pod) -> bool:
    """Other fields, such as conditions, change often."""
    return now is then or (now.spec == then.spec and now.metadata.labels == then.metadata.labels)


class OfflineGangs:
    """The gangs among the pods of manifests. Members are its gated pods."""

    def __init__(
        self,
        groups: Iterable[ApiObject],
        pods: Iterable[Pod],
        store: Store,
        roster: Roster,
        nodes: Nodes,
        planner: Planner,
        *,
        steps: int,
    ) -> None:
        """`store` and `nodes` are those of the run; placing changes neither."""
        self._store, self._nodes = store, nodes
        self._steps = steps
        known = _Groups(store.rules.gates)
        members = GangRoster(known.groups)
        load(known, groups)
        for pod in pods:
            members.note(pod.key, pod)
        self.members = members.members
        self._root = known.groups.root
        self._planner = GangPlanner(store, roster, members, known.groups, nodes.on_demand, planner)

    def gang(self, pod: Pod) -> GangKey | None:
        """The gang with which a pod is decided."""
        named = gang_of(pod) if self._planner.serves(Unit(Kind.POD, pod.key)) else None
        return self._root(named) if named is not None else None

    def place(self, gang: GangKey) -> GangGranted | Blocked | None:
        """Places for the gated members of a gang, or why there are none. None: nothing is needed."""
        match self._planner.next(gang):
            case Blocked() as blocked:
                return blocked
            case GiveBack(why=why):
                return Blocked((), "NoSuitableNode", why)
            case Solve() as solve:
                with Trial(self._store, self._nodes, supposed=True) as trial:
                    answer = decide_gang(solve.question, trial, steps=self._steps, budget=UNLIMITED)
                if isinstance(answer, GangUnsatisfied):
                    return Blocked((), answer.reason, answer.message)
                return answer
        return None


class _Groups:
    """Takes PodGroups as if each had come from a watch."""

    def __init__(self, gates: frozenset[str]) -> None:
        self.groups = PodGroups(gates)
        self.apply = self.groups.note
