"""Counts pods as gone in a trial: what then fits, and where what replaces them could go."""

from collections.abc import Callable, Container, Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from reconciler.allocation.gangs.kinds import GangQuestion, Member
from reconciler.allocation.placement.order import queue_key
from reconciler.analysis.attempt import NoFit
from reconciler.analysis.relocation.occupants import Occupants, Pods, Unit
from reconciler.analysis.relocation.wanted import (
    Place,
    Wanted,
    WantedGang,
    WantedPod,
    again,
    held_again,
    regains,
    settled,
)
from reconciler.analysis.relocation.world import World
from reconciler.api.objects.core import Pod, claims_of
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.pinning import unpinned
from reconciler.api.plugins import holding
from reconciler.state.nominations import devices_of
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
    for unit in sorted(units, key=lambda unit: min(queue_key(occupants.pods[key].pod) for key in unit.pods)):
        found[unit.pods] = _move_unit(unit, pods, occupants, world, trial)
    return tuple(found[unit.pods] for unit in units)


def _move_unit(unit: Unit, gone: Pods, occupants: Occupants, world: World, trial: Trial) -> Move:
    stuck = [key for key in unit.pods if not occupants.pods[key].movable]
    if stuck:
        owner = occupants.pods[stuck[0]].controller
        what = "its DaemonSet only runs it there" if owner is not None else "it has no controller"
        return Move(unit, (), NoFit(NOT_REPLACED, f"pod {stuck[0]} would not be replaced: {what}"))
    for key in unit.pods:
        if (plugin := holding(occupants.pods[key].pod)) is not None:
            why = f"pod {key} holds {plugin.title}, which are not placed here; see `whatif --drain`"
            return Move(unit, (), NoFit(OTHER_DEVICES, why))
    freed = frozenset(occupants.freed(gone))
    members = [_member(key, freed, occupants, world, trial) for key in unit.pods]
    wanted: WantedPod | WantedGang
    if unit.gang is None:
        wanted = WantedPod(members[0].claims, members[0].pod, members[0].held)
    else:
        rules = occupants.gangs[unit.gang].rules
        tiers = rules.tiers if rules is not None else ()
        by_order = tuple(sorted(members, key=lambda member: queue_key(member.pod)))
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


class OutOfTries(Exception):
    """The step budget is used up."""


_Ask = Callable[[tuple[ObjectKey, ...]], Wanted]
"""What to place when some claims are free"""


def leave(trial: Trial, pods: Pods, occupants: Occupants, world: World) -> tuple[ObjectKey, ...]:
    """Count pods as gone, and their claims as free. Returns those that are free."""
    freed = occupants.freed(pods)
    for claim in freed:
        trial.release(world.store.claims[claim].metadata.uid)
    for key in sorted(pods):
        trial.remove(key)
    return freed


class Attempts:
    """Answers whether something fits without some pods. Each question is asked once."""

    def __init__(self, wanted: Wanted, world: World, trial: Trial, occupants: Occupants, tries: int) -> None:
        self.wanted, self.world, self.trial, self.occupants = wanted, world, trial, occupants
        self.left = tries
        """Attempts that remain"""
        self.unsure = False
        """Whether the search for devices gave up, so that it is not known whether something fits"""
        self._held = frozenset(claim.key for claim in wanted.all_held)
        self._known: dict[tuple[str | None, Pods], tuple[Place, ...] | NoFit] = {}
        self._could: dict[tuple[str | None, Pods], bool] = {}
        self._seen: dict[Pods, tuple[Place, ...]] = {}
        """Where it was first seen to fit"""
        self._places: dict[Pods, tuple[Place, ...]] = {}
        self._spare: dict[Pods, int] = {}

    def fits(self, pods: Pods, on: str | None = None) -> bool:
        """Whether it fits without these pods. Raises OutOfTries."""
        found = self._known.get((on, pods))
        if found is None:
            found = self._known[on, pods] = self._try(pods, on, self.wanted.when_free)
            if not isinstance(found, NoFit):
                self._seen.setdefault(pods, found)
        return not isinstance(found, NoFit)

    def could_fit(self, pods: Pods, on: str | None = None) -> bool:
        """Whether it may fit without some of these pods; if not, it is certain. Raises OutOfTries.

        A claim that is wanted itself may find no place once it is free: it may fit without fewer pods only.
        Source: MAKE-6.
        """
        freed = self._held.intersection(self.occupants.freed(pods))
        if not freed or freed <= self._regained:
            return self.fits(pods, on)
        if (on, pods) not in self._could:
            found = self._try(pods, on, lambda freed: self.wanted.at_most(freed, self._regained))
            self._could[on, pods] = not isinstance(found, NoFit)
        return self._could[on, pods]

    @cached_property
    def _regained(self) -> frozenset[ObjectKey]:
        """Claims that no other gated pod holds, and that get the same again if they are free."""
        if isinstance(self.wanted, WantedGang):
            return frozenset()  # a search for several members might not see that they fit
        others = {claim.key for _, held, _ in self.wanted.sharing for claim in held}
        known = self.occupants.allocations
        mine = (one for one in self.wanted.held if one.key in known and one.key not in others)
        return frozenset(one.key for one in mine if regains(one, known[one.key], self.trial))

    def _try(self, pods: Pods, on: str | None, ask: _Ask) -> tuple[Place, ...] | NoFit:
        if self.left <= 0:
            raise OutOfTries
        self.left -= 1
        found = self._without(pods, on, ask)
        self.unsure |= isinstance(found, NoFit) and not found.proven
        return found

    def _without(self, pods: Pods, on: str | None, ask: _Ask) -> tuple[Place, ...] | NoFit:
        mark = self.trial.mark()
        freed = leave(self.trial, pods, self.occupants, self.world)
        found = ask(freed).place(self.world, self.trial, on=on)
        self.trial.back_to(mark)
        return found

    def places(self, pods: Pods) -> tuple[Place, ...]:
        """Where it goes without these pods, without which it was seen to fit. That costs no further attempt.

        The search of all nodes may give up before it comes to the node where it fits: then there.
        """
        if pods not in self._places:
            found = self._known.get((None, pods)) or self._without(pods, None, self.wanted.when_free)
            self._places[pods] = self._seen[pods] if isinstance(found, NoFit) else found
        return self._places[pods]

    def spare(self, pods: Pods) -> int:
        """How many devices these pods release that are still free when it has its place. It was seen to fit
        without them. Source: MAKE-4.
        """
        if pods not in self._spare:
            places = self.places(pods)
            taken = frozenset(devices_of(plan for place in places for plan in place.plans))
            mark = self.trial.mark()
            leave(self.trial, pods, self.occupants, self.world)
            settle(places, {pod.key: pod for pod in self.wanted.pods}, self.trial)
            self._spare[pods] = self._still_free(self.occupants.freed(pods), taken)
            self.trial.back_to(mark)
        return self._spare[pods]

    def _still_free(self, claims: Iterable[ObjectKey], taken: Container[DeviceID]) -> int:
        """How many devices of released claims nobody has now. One that others share is free, but not left."""
        results = chain.from_iterable(self.occupants.allocations[claim].devices.results for claim in claims)
        released = {one.id for one in results if not one.admin_access and one.id not in taken}
        occupancy, fleet = self.trial.snapshot.occupancy, self.trial.snapshot.fleet

        def is_left(row: int) -> bool:
            return bool(occupancy.free[row] and not occupancy.sharing[row])

        return sum(any(map(is_left, fleet.rows_of(device))) for device in released)
