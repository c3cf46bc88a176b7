"""Tries sets of pods: without them, does it fit? Counts the attempts."""

from collections.abc import Container, Iterable
from itertools import chain, combinations

from reconciler.analysis.attempt import NoFit
from reconciler.analysis.making_room.moves import settle
from reconciler.analysis.making_room.units import Occupants, Pods
from reconciler.analysis.making_room.wanted import Place, Wanted
from reconciler.analysis.making_room.world import World
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.state.nominations.nomination import devices_of
from reconciler.state.trial import Trial


class OutOfTries(Exception):
    """The step budget is used up."""


Claims = frozenset[ObjectKey]
NONE: Claims = frozenset()


def leave(
    trial: Trial, pods: Pods, occupants: Occupants, world: World, kept: Claims = NONE
) -> tuple[ObjectKey, ...]:
    """Count pods as gone, and their claims as free, except some. Returns those that are free."""
    freed = tuple(claim for claim in occupants.freed(pods) if claim not in kept)
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
        self._known: dict[tuple[str | None, Pods, Claims], tuple[Place, ...] | NoFit] = {}
        self._seen: dict[Pods, tuple[Place, ...]] = {}
        """Where it was first seen to fit, with no claim kept"""
        self._places: dict[Pods, tuple[Place, ...]] = {}
        self._spare: dict[Pods, int] = {}

    def fits(self, pods: Pods, on: str | None = None, kept: Claims = NONE) -> bool:
        """Whether it fits without these pods. Some of their claims stay as they are. Raises OutOfTries."""
        found = self._known.get((on, pods, kept))
        if found is None:
            if self.left <= 0:
                raise OutOfTries
            self.left -= 1
            found = self._known[on, pods, kept] = self._without(pods, on, kept)
            self.unsure |= isinstance(found, NoFit) and not found.proven
            if not kept and not isinstance(found, NoFit):
                self._seen.setdefault(pods, found)
        return not isinstance(found, NoFit)

    def places(self, pods: Pods) -> tuple[Place, ...]:
        """Where it goes without these pods, without which it was seen to fit. That costs no further attempt.

        The search of all nodes may give up before it comes to the node where it fits: then there.
        """
        if pods not in self._places:
            found = self._known.get((None, pods, NONE)) or self._without(pods)
            self._places[pods] = self._seen[pods] if isinstance(found, NoFit) else found
        return self._places[pods]

    def _without(self, pods: Pods, on: str | None = None, kept: Claims = NONE) -> tuple[Place, ...] | NoFit:
        mark = self.trial.mark()
        freed = leave(self.trial, pods, self.occupants, self.world, kept)
        found = self.wanted.when_free(freed).place(self.world, self.trial, on=on)
        self.trial.back_to(mark)
        return found

    def could_fit(self, pods: Pods, on: str | None = None) -> bool:
        """Whether it may fit without some of these pods; if not, it is certain. Raises OutOfTries.

        A claim that is wanted itself may find no place once it is free: it may fit without fewer pods only.
        Source: MAKE-6.
        """
        if not self._held:
            return self.fits(pods, on)
        free = [claim for claim in self.occupants.freed(pods) if claim in self._held]
        each = chain.from_iterable(combinations(free, count) for count in range(len(free) + 1))
        return any(self.fits(pods, on, frozenset(kept)) for kept in each)

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
