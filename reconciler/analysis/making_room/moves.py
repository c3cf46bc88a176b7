"""Where the pods that leave could go: what replaces them is placed by the same search as anything else."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from reconciler.allocation.gangs.question import GangQuestion, Member
from reconciler.allocation.placement import place
from reconciler.analysis.attempt import NoFit
from reconciler.analysis.making_room.again import again, held_again, settled
from reconciler.analysis.making_room.units import Occupants, Pods, Unit
from reconciler.analysis.making_room.wanted import Place, WantedGang, WantedPod
from reconciler.analysis.making_room.world import World
from reconciler.api.koordinator.names import ALLOCATED
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.pinning import unpinned
from reconciler.api.objects.pods import claims_of
from reconciler.state.trial import Trial

NOT_REPLACED = "NotReplaced"
"""The reason if nothing recreates a pod, or only on its node"""
OTHER_DEVICES = "KoordinatorDevices"
"""The reason if a pod holds devices of Device objects"""


class Move(NamedTuple):
    """What becomes of pods that leave together."""

    unit: Unit
    places: tuple[Place, ...]
    """Where they go: one for each pod; empty if they go nowhere"""
    refusal: NoFit | None = None
    """Why they go nowhere"""


def move_all(
    pods: Pods,
    occupants: Occupants,
    world: World,
    trial: Trial,
) -> tuple[Move, ...]:
    """Where pods that have left go, the most important first. They hold their places in the trial afterwards.

    They must have left in the trial, as `leave` has them.
    """
    found = {}
    units = occupants.units(pods)
    for unit in sorted(units, key=lambda unit: min(place(occupants.pods[key].pod) for key in unit.pods)):
        found[unit.pods] = _move(unit, pods, occupants, world, trial)
    return tuple(found[unit.pods] for unit in units)


def _move(unit: Unit, gone: Pods, occupants: Occupants, world: World, trial: Trial) -> Move:
    stuck = [key for key in unit.pods if not occupants.pods[key].movable]
    if stuck:
        owner = occupants.pods[stuck[0]].controller
        what = "its DaemonSet only runs it there" if owner is not None else "it has no controller"
        return Move(unit, (), NoFit(NOT_REPLACED, f"pod {stuck[0]} would not be replaced: {what}"))
    for key in unit.pods:
        if ALLOCATED in occupants.pods[key].pod.metadata.annotations:
            why = f"pod {key} holds Koordinator's devices, which are not placed here; see `whatif --drain`"
            return Move(unit, (), NoFit(OTHER_DEVICES, why))
    freed = frozenset(occupants.freed(gone))
    members = [_member(key, freed, occupants, world, trial) for key in unit.pods]
    wanted: WantedPod | WantedGang
    if unit.gang is None:
        wanted = WantedPod(members[0].claims, members[0].pod, members[0].held)
    else:
        rules = occupants.gangs[unit.gang].rules
        tiers = rules.tiers if rules is not None else ()
        by_order = tuple(sorted(members, key=lambda member: place(member.pod)))
        wanted = WantedGang(GangQuestion(unit.gang, by_order, len(members), tiers))
    answer = wanted.place(world, trial)
    if isinstance(answer, NoFit):
        return Move(unit, (), answer)
    settle(answer, {member.pod.key: member.pod for member in members}, trial)
    return Move(unit, answer)


def settle(places: Iterable[Place], pods: dict[ObjectKey, Pod], trial: Trial) -> None:
    """Count things at their places from now on."""
    for one in places:
        trial.place(one.plans, pods[one.pod] if one.pod is not None else None, one.node)


def _member(key: ObjectKey, freed: Pods, occupants: Occupants, world: World, trial: Trial) -> Member:
    """A pod as its controller recreates it, with claims like those that it had."""
    one = occupants.pods[key]
    claims = [world.store.claims[name] for name in claims_of(one.pod) if name in world.store.claims]
    todo = tuple(again(claim) for claim in claims if claim.key in freed and not settled(claim, trial))
    held = tuple(claim for claim in claims if claim.key not in freed and claim.allocation is not None)
    held += tuple(
        held_again(claim, trial) for claim in claims if claim.key in freed and settled(claim, trial)
    )
    return Member(unpinned(one.pod, one.node), todo, held)


def all_move(moves: Sequence[Move]) -> bool:
    """Whether nobody loses a place."""
    return all(move.refusal is None for move in moves)
