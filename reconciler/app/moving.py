"""Connects `analysis`, which plans who leaves or moves, with `control`, which evicts."""

from collections.abc import Sequence
from dataclasses import replace

from msgspec import Struct

from reconciler.aio.tasks import ShouldContinue
from reconciler.allocation.gangs.kinds import Member
from reconciler.analysis.capacity.layout import FleetLayout, fleet_layout
from reconciler.analysis.relocation.defragment import Answer, GainStep, PodMove, defragment, problem
from reconciler.analysis.relocation.goals import MayMove, Target, anyone, for_each_kind
from reconciler.analysis.relocation.make_room import Advice, make_room
from reconciler.analysis.relocation.moves_planner import Limit
from reconciler.analysis.relocation.occupants import Occupant, Occupants, Unit
from reconciler.analysis.world import Place, Wanted, WantedGang, WantedPod, World
from reconciler.api.objects.core import controller_of
from reconciler.api.objects.gangs import GangKey, gang_of
from reconciler.api.objects.meta import ObjectKey
from reconciler.control.handler import Decide
from reconciler.control.ownership import Ownership, is_made_for
from reconciler.control.relocation.evictor import allocated_by_us
from reconciler.control.relocation.ground import Victim
from reconciler.control.relocation.moves import Allowed, MovesAdvice, Relocation
from reconciler.control.relocation.relocator import Question, RoomPlan, RoomQuestion
from reconciler.errors import Rejected
from reconciler.state.nominations import HeldPlace, devices_of
from reconciler.state.pods.device_shares import demand_of
from reconciler.state.store import Store

TRIES = 500
"""Sets of pods that are tried for one plan"""
GANGS = 3
"""How often a plan is made again without the pods of gangs that would leave as a whole"""


class RoomPlanner:
    """Makes plans that this controller may carry out: only for our devices, and only pods that got theirs
    from us leave.
    """

    def __init__(self, ours: Ownership, most: int) -> None:
        """`most`: the pods of a group that may leave together."""
        self._ours, self._most = ours, most

    def plan(self, question: RoomQuestion, wanted: ShouldContinue) -> RoomPlan:  # noqa: ARG002
        """A plan, in any thread."""
        store = question.fork.store()
        world = World(store, question.nodes, question.groups, question.budgets, own=question.own)
        asked = self._wanted(question)
        whole: set[GangKey] = set()

        def may_leave(one: Occupant) -> bool:
            return (
                allocated_by_us(one.claims, store, self._ours)
                and len(one.budgets) <= 1  # the server evicts no pod that several budgets cover
                and one.gang not in whole
                and not question.spared(one.pod)
            )

        cheapest = advice = make_room(asked, world, tries=TRIES, may_leave=may_leave)
        for _ in range(GANGS):
            kept = self._kept(advice, world)
            if not kept:
                break
            named = (gang_of(store.pods[key]) for unit in kept for key in unit.pods)
            whole |= {gang for gang in named if gang is not None}
            advice = make_room(asked, world, tries=TRIES, may_leave=may_leave)
        return self._read(cheapest if advice.refusal is not None else advice, asked, world)

    def _kept(self, advice: Advice, world: World) -> list[Unit]:
        """The gangs that would leave as a whole, but for those that their group says leave only so."""
        return [
            unit
            for unit in (move.unit for move in advice.moves)
            if unit.gang is not None
            and (len(unit.pods) > self._most or not world.groups.leaves_whole(unit.gang))
        ]

    def _wanted(self, question: RoomQuestion) -> Wanted:
        need = question.need
        if isinstance(need, Decide):
            claims = tuple(map(self._ours.restricted, need.claims))
            held = tuple(map(self._ours.restricted, need.held))  # they may be free, and need devices again
            return WantedPod(claims, need.pod, held, question.sharing)
        members = (
            Member(
                member.pod,
                tuple(map(self._ours.restricted, member.claims)),
                tuple(map(self._ours.restricted, member.held)),
            )
            for member in need.question.members
        )
        return WantedGang(replace(need.question, members=tuple(members)))

    def _read(self, advice: Advice, asked: Wanted, world: World) -> RoomPlan:
        if advice.refusal is not None:
            return RoomPlan((), (), refused=advice.refusal.message)
        victims, places = _victims(advice, world), _places(advice.places, asked, world)
        awaits = bool(advice.leaving)
        if kept := self._kept(advice, world):
            return RoomPlan(
                victims, places, awaits, advice=f"gang {kept[0].gang} would have to leave as a whole"
            )
        if advice.violated:
            budget = next(iter(advice.violated))
            why = f"PodDisruptionBudget {budget} allows no further eviction"
            return RoomPlan(victims, places, awaits, advice=why)
        return RoomPlan(victims, places, awaits)


def _victims(advice: Advice, world: World) -> tuple[Victim, ...]:
    occupants = Occupants(world, gone=frozenset(advice.leaving))
    found, gone, before = [], frozenset[ObjectKey](), set[ObjectKey]()
    for move in advice.moves:
        for key in move.unit.pods:
            gone |= {key}
            freed = [claim for claim in occupants.freed(gone) if claim not in before]
            before.update(freed)
            frees = tuple((claim, world.store.claims[claim].metadata.uid) for claim in freed)
            group = "" if move.unit.gang is None else str(move.unit.gang)
            found.append(Victim(key, occupants.pods[key].pod.metadata.uid, frees, group))
    return tuple(found)


def _places(places: tuple[Place, ...], asked: Wanted, world: World) -> tuple[HeldPlace, ...]:
    pods, found = {pod.key: pod for pod in asked.pods}, []
    for one in places:
        takes = demand_of(pods[one.pod], world.store, one.plans) if one.pod in pods else {}
        found.append(HeldPlace(one.node, devices_of(one.plans), tuple(sorted(takes.items()))))
    return tuple(found)


DECISIONS = 1_000
"""Decisions of one plan for one goal, after which it is given up"""


class MovePlanner(Struct, eq=False):
    """Plans for all goals. With `allowed`, only moves that this controller may carry out.

    `most_moves` is that of a plan, `moves_per_gain` that of each of its steps.
    """

    _ours: Ownership
    _goals: Sequence[Target]
    _allowed: Allowed | None
    most_moves: int
    moves_per_gain: int

    def plan(self, question: Question, wanted: ShouldContinue) -> tuple[MovesAdvice, ...]:
        """Advice for each goal, in any thread. None for one without a name if nodes have one device each."""
        world, may_move = self._asked(question)
        found, layout = [], _layout_of(world)
        limit = Limit(DECISIONS, self.most_moves, wanted)
        for target in self._targets(layout):
            try:
                answer = defragment(target, world, layout=layout, may_move=may_move, limit=limit)
            except Rejected as exc:
                found.append(MovesAdvice(str(target), why=str(exc)))
            else:
                found.append(self._read(target, answer, world))
        return tuple(found)

    def problem(self, question: Question, advice: MovesAdvice, _wanted: ShouldContinue, /) -> str:
        """Why what is left of some advice cannot be carried out any more, in any thread."""
        world, may_move = self._asked(question)
        layout = _layout_of(world)
        target = next((one for one in self._targets(layout) if str(one) == advice.goal), None)
        if target is None:
            return f"nothing of {advice.goal} is there any more"
        changed = [move for move in advice.moves if not _is_the_same(move.victim, world.store)]
        if changed:
            return f"pod {changed[0].victim.key} is another one now, or gone"
        moves = [_move(move) for move in advice.moves]
        return problem(moves, target, advice.after, world, layout=layout, may_move=may_move)

    def _targets(self, layout: FleetLayout) -> list[Target]:
        return [one for goal in self._goals for one in for_each_kind(goal, layout)]

    def _asked(self, question: Question) -> tuple[World, MayMove]:
        store = question.fork.store()
        world = World(store, question.nodes, question.groups, question.budgets, own=question.own)
        return world, anyone if self._allowed is None else self._may_move(self._allowed, question, store)

    def _may_move(self, allowed: Allowed, question: Question, store: Store) -> MayMove:
        """What replaces a pod must be gated, so that its place can be held, and get claims of its own.

        A claim that we allocated without being told to by a label belongs to a gated pod.
        """
        short = {
            controller.uid
            for pod in store.pods.values()
            if pod.gated and (controller := controller_of(pod)) is not None
        }

        def may_move(one: Occupant) -> bool:
            claims = [store.claims[key] for key in one.claims]
            return (
                one.gang is None
                and one.controller is not None
                and one.controller.uid not in short  # another one of its pods would take the place
                and allowed.permits(one.pod)
                and len(one.budgets) <= 1  # the server evicts no pod that several budgets cover
                and not question.spared(one.pod)
                and allocated_by_us(one.claims, store, self._ours)
                and not any(map(self._ours.claims, claims))
                and all(is_made_for(claim, one.pod) for claim in claims)
            )

        return may_move

    def _read(self, target: Target, answer: Answer, world: World) -> MovesAdvice:
        steps = self._worthwhile(answer.steps)
        after = answer.before + sum(step.gain for step in steps)
        why = ""
        if not steps and answer.wanted:
            why = "no moves within the limits help" if answer.steps else "no moves were found"
            why += "; the search gave up before it tried everything" if answer.gave_up else ""
        return MovesAdvice(
            str(target),
            answer.title,
            answer.before,
            after,
            answer.before + answer.wanted,
            tuple(_relocation(move, step.place, world) for step in steps for move in step.moves),
            why,
        )

    def _worthwhile(self, steps: Sequence[GainStep]) -> tuple[GainStep, ...]:
        """The first steps within the limits: those after them depend on all before."""
        found, moves = [], 0
        for step in steps:
            moves += len(step.moves)
            if moves > self.most_moves or len(step.moves) > self.moves_per_gain * step.gain:
                break
            found.append(step)
        return tuple(found)


def _layout_of(world: World) -> FleetLayout:
    snapshot = world.store.snapshot()
    return fleet_layout(snapshot.topology)


def _relocation(move: PodMove, gains: str, world: World) -> Relocation:
    store = world.store
    pod = store.pods[move.pod]
    frees = tuple((key, store.claims[key].metadata.uid) for key in move.claims)
    return Relocation(
        Victim(move.pod, pod.metadata.uid, frees),
        move.controller,
        pod.spec.priority or 0,
        move.node,
        move.devices,
        HeldPlace(move.to_node, move.to_devices, tuple(sorted(demand_of(pod, store).items()))),
        gains,
    )


def _move(one: Relocation) -> PodMove:
    return PodMove(
        one.victim.key,
        one.controller,
        tuple(key for key, _ in one.victim.frees),
        one.node,
        one.devices,
        one.to.node,
        one.to.devices,
    )


def _is_the_same(victim: Victim, store: Store) -> bool:
    pod = store.pods.get(victim.key)
    return pod is not None and pod.metadata.uid == victim.uid
