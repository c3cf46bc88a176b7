"""Counts pods as gone in a trial: what then fits, and where what replaces them could go. Source: MAKE-8."""

from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from reconciler.allocation.gangs.kinds import AskedGroup, GangQuestion, Member
from reconciler.allocation.placement.order import queue_key
from reconciler.analysis.relocation.occupants import Occupants, Pods, Unit
from reconciler.analysis.world import NoFit, Place, Wanted, WantedGang, WantedPod, again, held_again
from reconciler.api.objects.core import Pod, claims_of
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.pinning import unpinned
from reconciler.api.plugins import holding
from reconciler.state.nominations import devices_of
from reconciler.state.pods.placed import Placed
from reconciler.state.trial import Trial

NOT_REPLACED = "NotReplaced"
"""The reason if nothing recreates a pod, or only on its node"""
OTHER_DEVICES = "KoordinatorDevices"
"""The reason if a pod holds devices of Device objects"""


def leave(trial: Trial, pods: Pods, occupants: Occupants) -> tuple[ObjectKey, ...]:
    """Count pods as gone, and their claims as free. Returns those that are free."""
    freed = occupants.freed(pods)
    for claim in freed:
        trial.release(trial.store.claims[claim].metadata.uid)
    for key in sorted(pods):
        trial.remove(key)
    return freed


def settle(places: Iterable[Place], pods: Iterable[Pod], trial: Trial) -> None:
    """Count things at their places from now on."""
    by_key = {pod.key: pod for pod in pods}
    for one in places:
        trial.place(one.plans, by_key[one.pod] if one.pod is not None else None, one.node)


class Move(NamedTuple):
    """What becomes of pods that leave together."""

    unit: Unit
    places: tuple[Place, ...]
    """Where they go: one for each pod; empty if they go nowhere"""
    refusal: NoFit | None = None
    """Why they go nowhere"""

    def as_json(self, devices: Mapping[ObjectKey, Sequence[DeviceID]]) -> dict[str, Any]:
        """Pods that leave together, what they free of the devices of claims, and where they could go."""
        unit = self.unit
        return {
            "pods": [str(key) for key in unit.pods],
            "gang": str(unit.gang) if unit.gang is not None else None,
            "frees": [
                {"claim": str(claim), "devices": [one._asdict() for one in devices.get(claim, ())]}
                for claim in unit.claims
            ],
            "goesTo": [place_as_json(one) for one in self.places],
            "refused": self.refusal.as_json() if self.refusal is not None else None,
        }


def place_as_json(place: Place) -> dict[str, Any]:
    """A node, and the devices there."""
    return {
        "pod": str(place.pod) if place.pod is not None else None,
        "node": place.node or None,
        "devices": [
            {"claim": str(plan.claim), "request": result.request, **result.id._asdict()}
            for plan in place.plans
            for result in plan.allocation.devices.results
        ],
    }


def move_all(pods: Pods, occupants: Occupants, trial: Trial) -> tuple[Move, ...]:
    """Where pods that have left go, the most important first. They hold their places in the trial afterwards.

    They must have left in the trial, as `leave` has them.
    """
    found, freed = {}, frozenset(occupants.freed(pods))
    units = occupants.units(pods)
    for unit in sorted(units, key=lambda unit: min(queue_key(occupants.pods[key].pod) for key in unit.pods)):
        found[unit.pods] = _move(unit, freed, occupants, trial)
    return tuple(found[unit.pods] for unit in units)


def _move(unit: Unit, freed: Pods, occupants: Occupants, trial: Trial) -> Move:
    """What replaces pods is placed by the same search as anything else."""
    stuck = [key for key in unit.pods if not occupants.pods[key].movable]
    if stuck:
        owner = occupants.pods[stuck[0]].controller
        what = "its DaemonSet only runs it there" if owner is not None else "it has no controller"
        return Move(unit, (), NoFit(NOT_REPLACED, f"pod {stuck[0]} would not be replaced: {what}"))
    for key in unit.pods:
        if (plugin := holding(occupants.pods[key].pod)) is not None:
            why = f"pod {key} holds {plugin.title}, which are not placed here; see `whatif --drain`"
            return Move(unit, (), NoFit(OTHER_DEVICES, why))
    members = [_recreated(key, freed, occupants, trial) for key in unit.pods]
    wanted: Wanted
    if unit.gang is None:
        wanted = WantedPod(members[0].claims, members[0].pod, members[0].held)
    else:
        by_order = tuple(sorted(members, key=lambda member: queue_key(member.pod)))
        wanted = WantedGang(_question(unit, by_order, occupants, trial))
    answer = wanted.place(trial)
    if isinstance(answer, NoFit):
        rules = occupants.gangs[unit.gang].rules if unit.gang is not None else None
        if rules is not None and not rules.groups and rules.least < len(unit.pods):
            why = f"All {len(unit.pods)} pods of the gang have to move; it needs {rules.least} to run"
            answer = answer._replace(message=f"{answer.message}. {why}")
        return Move(unit, (), answer)
    settle(answer, wanted.pods, trial)
    return Move(unit, answer)


def _question(unit: Unit, members: tuple[Member, ...], occupants: Occupants, trial: Trial) -> GangQuestion:
    """All members of a gang or tree again; of a group of a tree, beside those of the tree that stay."""
    assert unit.gang is not None
    root = occupants.root(unit.gang)
    rules = occupants.gangs[root].rules if root in occupants.gangs else occupants.gangs[unit.gang].rules
    if rules is None or not rules.groups:
        return GangQuestion(unit.gang, members, len(members), rules.tiers if rules is not None else ())
    there: dict[str, list[Pod]] = {}
    for key in sorted(occupants.gangs[root].members - {*unit.pods}):
        if trial.nodes.room.charged(key) is not None:
            there.setdefault(rules.group_of(occupants.pods[key].pod), []).append(occupants.pods[key].pod)
    placed = {group: _placed(pods, trial) for group, pods in there.items()}
    tree = AskedGroup.of(rules, members, placed).whole()
    return GangQuestion(root, members, len(members), tree=tree)


def _placed(pods: Sequence[Pod], trial: Trial) -> Placed:
    """Where pods are now: some may have been recreated before, with claims that have a place again."""
    charges = (trial.nodes.room.charged(pod.key) for pod in pods)
    nodes = tuple(charge.node for charge in charges if charge is not None)
    claims = filter(None, (trial.store.claims.get(key) for pod in pods for key in claims_of(pod)))
    held = ((held_again(claim, trial) or claim).allocation for claim in claims)
    return Placed(nodes, tuple(device for one in held if one is not None for device in one.held), len(pods))


def _recreated(key: ObjectKey, freed: Pods, occupants: Occupants, trial: Trial) -> Member:
    """A pod as its controller recreates it, with claims like those that it had.

    A claim that is free has its place again if another pod that shares it was placed before.
    """
    one, todo, held = occupants.pods[key], [], []
    for claim in map(trial.store.claims.get, claims_of(one.pod)):
        if claim is None:
            continue
        if claim.key not in freed:
            held += [claim] if claim.allocation is not None else []
        elif (settled := held_again(claim, trial)) is not None:
            held.append(settled)
        else:
            todo.append(again(claim))
    return Member(unpinned(one.pod, one.node), tuple(todo), tuple(held))


class OutOfTries(Exception):
    """The step budget is used up."""


class Attempts:
    """Answers whether something fits without some pods. Each question is asked once."""

    def __init__(self, wanted: Wanted, trial: Trial, occupants: Occupants, tries: int) -> None:
        self.wanted, self.trial, self.occupants = wanted, trial, occupants
        self.left = tries
        """Attempts that remain"""
        self.unsure = False
        """Whether the search for devices gave up, so that it is not known whether something fits"""
        self._held = frozenset(claim.key for claim in wanted.all_held)
        self._known: dict[tuple[str | None, Pods], tuple[Place, ...] | NoFit] = {}
        self._seen: dict[Pods, tuple[Place, ...]] = {}
        """Where it was first seen to fit"""
        self._places: dict[Pods, tuple[Place, ...]] = {}
        self._spare: dict[Pods, int] = {}

    def fits(self, pods: Pods, on: str | None = None) -> bool:
        """Whether it fits without these pods. Raises OutOfTries."""
        found = self._known.get((on, pods))
        if found is None:
            if self.left <= 0:
                raise OutOfTries
            self.left -= 1
            found = self._known[on, pods] = self._without(pods, on)
            if isinstance(found, NoFit):
                self.unsure |= not found.proven
            else:
                self._seen.setdefault(pods, found)
        return not isinstance(found, NoFit)

    def could_fit(self, pods: Pods, on: str | None = None) -> bool:
        """Whether it may fit without some of these pods; if not, it is certain. Raises OutOfTries.

        A claim that is wanted itself needs devices again once it is free, and may find none: it may fit
        without fewer pods only, so nothing is certain then. Source: MAKE-6.
        """
        return not self._held.isdisjoint(self.occupants.freed(pods)) or self.fits(pods, on)

    def _without(self, pods: Pods, on: str | None) -> tuple[Place, ...] | NoFit:
        mark = self.trial.mark()
        freed = leave(self.trial, pods, self.occupants)
        found = self.wanted.when_free(freed).place(self.trial, on=on)
        self.trial.back_to(mark)
        return found

    def places(self, pods: Pods) -> tuple[Place, ...]:
        """Where it goes without these pods, without which it was seen to fit. That costs no further attempt.

        The search of all nodes may give up before it comes to the node where it fits: then there.
        """
        if pods not in self._places:
            found = self._known.get((None, pods)) or self._without(pods, None)
            self._places[pods] = self._seen[pods] if isinstance(found, NoFit) else found
        return self._places[pods]

    def moves(self, pods: Pods) -> tuple[Move, ...]:
        """Where these pods go when it has its place. Keeps all of that in the trial."""
        places = self.places(pods)
        leave(self.trial, pods, self.occupants)
        settle(places, self.wanted.pods, self.trial)
        return move_all(pods, self.occupants, self.trial)

    def all_move(self, pods: Pods) -> bool:
        """Whether each of these pods finds another place."""
        mark = self.trial.mark()
        found = self.moves(pods)
        self.trial.back_to(mark)
        return all(move.refusal is None for move in found)

    def spare(self, pods: Pods) -> int:
        """How many devices these pods release that are still free when it has its place. It was seen to fit
        without them. Source: MAKE-4.
        """
        if pods not in self._spare:
            places = self.places(pods)
            taken = frozenset(devices_of(plan for place in places for plan in place.plans))
            mark = self.trial.mark()
            freed = leave(self.trial, pods, self.occupants)
            settle(places, self.wanted.pods, self.trial)
            self._spare[pods] = self._still_free(freed, taken)
            self.trial.back_to(mark)
        return self._spare[pods]

    def _still_free(self, claims: Iterable[ObjectKey], taken: Container[DeviceID]) -> int:
        """How many devices of released claims nobody has now. One that others share is free, but not left."""
        held = chain.from_iterable(self.occupants.allocations[claim].held for claim in claims)
        released = {one for one in held if one not in taken}
        occupancy, fleet = self.trial.snapshot.occupancy, self.trial.snapshot.fleet

        def is_left(row: int) -> bool:
            return bool(occupancy.free[row] and not occupancy.sharing[row])

        return sum(any(map(is_left, fleet.rows_of(device))) for device in released)
