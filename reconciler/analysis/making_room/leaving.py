"""Tries sets of pods: without them, does it fit? Counts the attempts."""

from reconciler.analysis.attempt import NoFit
from reconciler.analysis.making_room.units import Occupants, Pods
from reconciler.analysis.making_room.wanted import Place, Wanted
from reconciler.analysis.making_room.world import World
from reconciler.api.objects.plan import Reason
from reconciler.state.trial import Trial


class OutOfTries(Exception):
    """The step budget is used up."""


def leave(trial: Trial, pods: Pods, occupants: Occupants, world: World) -> None:
    """Count pods as gone, and their claims as free."""
    for claim in occupants.freed(pods):
        trial.release(world.store.claims[claim].metadata.uid)
    for key in sorted(pods):
        trial.remove(key)


class Attempts:
    """Answers whether something fits without some pods. Each question is asked once."""

    def __init__(self, wanted: Wanted, world: World, trial: Trial, occupants: Occupants, tries: int) -> None:
        self.wanted, self.world, self.trial, self.occupants = wanted, world, trial, occupants
        self.left = tries
        """Attempts that remain"""
        self.unsure = False
        """Whether the search for devices gave up, so that it is not known whether something fits"""
        self._known: dict[tuple[str | None, Pods], tuple[Place, ...] | NoFit] = {}

    def place(self, pods: Pods, on: str | None = None) -> tuple[Place, ...] | NoFit:
        """Where it fits without these pods. Raises OutOfTries."""
        found = self._known.get((on, pods))
        if found is None:
            if self.left <= 0:
                raise OutOfTries
            self.left -= 1
            mark = self.trial.mark()
            leave(self.trial, pods, self.occupants, self.world)
            found = self.wanted.place(self.world, self.trial, on=on)
            self.trial.back_to(mark)
            self.unsure |= isinstance(found, NoFit) and found.reason == Reason.GAVE_UP
            self._known[on, pods] = found
        return found

    def fits(self, pods: Pods, on: str | None = None) -> bool:
        """Whether it fits without these pods. Raises OutOfTries."""
        return not isinstance(self.place(pods, on), NoFit)
