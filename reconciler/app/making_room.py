"""Connects `analysis`, which plans who leaves, with `control`, which evicts."""

from dataclasses import replace

from reconciler.aio.worker_thread import ShouldContinue
from reconciler.allocation.gangs.kinds import Member
from reconciler.analysis.relocation.make_room import Advice, make_room
from reconciler.analysis.relocation.occupants import Occupant, Occupants
from reconciler.analysis.world import Place, Wanted, WantedGang, WantedPod, World
from reconciler.api.objects.gangs import GangKey, gang_of
from reconciler.api.objects.meta import ObjectKey
from reconciler.control.ownership import Ownership
from reconciler.control.relocation.candidates import RoomPlan, RoomQuestion
from reconciler.control.relocation.evictor import allocated_by_us
from reconciler.control.relocation.ground import Victim
from reconciler.control.steps import Decide
from reconciler.state.nominations import HeldPlace, devices_of
from reconciler.state.pods.device_shares import demand_of

TRIES = 500
"""Sets of pods that are tried for one plan"""
GANGS = 3
"""How often a plan is made again without the pods of gangs that would leave as a whole"""


class RoomPlanner:
    """Makes plans that this controller may carry out: only for our devices, and only pods that got theirs
    from us leave.
    """

    def __init__(self, ours: Ownership) -> None:
        self._ours = ours

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
            moves = [move.unit for move in advice.moves if move.unit.gang is not None]
            if not moves:
                break
            named = (gang_of(store.pods[key]) for unit in moves for key in unit.pods)
            whole |= {gang for gang in named if gang is not None}
            advice = make_room(asked, world, tries=TRIES, may_leave=may_leave)
        return self._read(cheapest if advice.refusal is not None else advice, asked, world)

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
        gang = next((move.unit.gang for move in advice.moves if move.unit.gang is not None), None)
        if gang is not None:
            return RoomPlan(victims, places, awaits, advice=f"gang {gang} would have to leave as a whole")
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
            found.append(Victim(key, occupants.pods[key].pod.metadata.uid, frees))
    return tuple(found)


def _places(places: tuple[Place, ...], asked: Wanted, world: World) -> tuple[HeldPlace, ...]:
    pods, found = {pod.key: pod for pod in asked.pods}, []
    for one in places:
        takes = demand_of(pods[one.pod], world.store, one.plans) if one.pod in pods else {}
        found.append(HeldPlace(one.node, devices_of(one.plans), tuple(sorted(takes.items()))))
    return tuple(found)
