"""Tries sets of pods: without them, does it fit? Counts the attempts."""

from collections.abc import Callable, Container, Iterable
from functools import cached_property
from itertools import chain

from reconciler.analysis.attempt import NoFit
from reconciler.analysis.making_room.moves import settle
from reconciler.analysis.making_room.regaining import regains
from reconciler.analysis.making_room.units import Occupants, Pods
from reconciler.analysis.making_room.wanted import Place, Wanted, WantedGang
from reconciler.analysis.making_room.world import World
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.state.nominations.nomination import devices_of
from reconciler.state.trial import Trial


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
