"""Searches places for gangs: on the loop within a step limit, otherwise in a thread; offline at once."""

import dataclasses
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from reconciler.aio.tasks import ShouldContinue
from reconciler.allocation.dra.budget import UNLIMITED, Budget, WhileWanted
from reconciler.allocation.gangs.deciding import decide_gang
from reconciler.allocation.gangs.kinds import GangGranted, GangQuestion, GangUnsatisfied, Member
from reconciler.allocation.gangs.places import gang_still_fits
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import GangKey, gang_of
from reconciler.api.objects.meta import ApiObject
from reconciler.control.background_search import SELDOM, Found, LongSearch
from reconciler.control.gangs.planner import GangPlanner, GiveBack, Solve
from reconciler.control.handler import Blocked
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.planner import NOT_OURS, Planner
from reconciler.control.units import GangRoster, Kind, Roster, Unit, UnitLookup, gang_unit
from reconciler.state.nodes.table import Nodes
from reconciler.state.nominations import Nominee, of_gang, own_of_all
from reconciler.state.pods.groups import PodGroups
from reconciler.state.store import Store
from reconciler.state.trial import Forked, Trial

Answer = GangGranted | GangUnsatisfied


class GangSearch(LongSearch[Solve, Answer]):
    """One long search runs at a time; other gangs wait for the thread, and no others for them."""

    quick_steps = 100
    """About 0.25 ms each. A gang of 64 pods on 64 alike nodes takes 80."""
    refusal = GangUnsatisfied

    def __init__(self, intake: Intake, ours: Ownership, *, steps: int) -> None:
        """`steps` limits the search for one gang."""
        super().__init__("gangs", intake)
        self._ours = ours
        self._steps = steps

    def answer(self, solve: Solve) -> Answer | None:
        """That of `answer_for`."""
        return self.answer_for(gang_unit(solve.question.gang), solve)

    def on_loop(self, question: Solve, budget: Budget) -> Answer:
        """The trial ends before anybody sees it: nothing stays assumed that is not written."""
        with Trial(self._store, self._intake.nodes, supposed=False, own=_own(question)) as trial:
            return self._decided(question, trial, budget)

    def in_thread(self, question: Solve) -> Callable[[ShouldContinue], Found[Solve, Answer]]:
        before, serial = self._store.snapshot_for(_own(question)), self._intake.nodes.serial
        fork, nodes = Forked.fork_of(self._store), self._intake.nodes.fork()

        def search(wanted: ShouldContinue) -> Found[Solve, Answer]:
            budget = WhileWanted(lambda: wanted() and self._has(question), SELDOM)
            with Trial(fork.store(), nodes, supposed=False, own=_own(question)) as trial:
                return Found(question, before, serial, self._decided(question, trial, budget))

        return search

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

    def is_true(self, found: Found[Solve, Answer], now: Solve) -> bool:
        if isinstance(found.answer, GangUnsatisfied):
            version = self._store.snapshot_for(_own(now)).version
            return version == found.snapshot.version and found.serial == self._intake.nodes.serial
        with Trial(self._store, self._intake.nodes, supposed=False, own=_own(now)) as trial:
            return gang_still_fits(self._restricted(now), found.answer, found.snapshot, trial)

    def is_same(self, then: Solve, now: Solve) -> bool:
        return _is_same(now.question, then.question)


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
        known = PodGroups(store.rules.gates)
        members = GangRoster(known)
        for group in groups:
            known.note(Changed(type(group).__name__, group))
        for pod in pods:
            members.note(pod.key, pod)
        self.members = members.members
        self._root = known.root
        self._planner = GangPlanner(UnitLookup(store, roster, members, known), planner, nodes.on_demand)

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
