"""Places units one after another on a store and its nodes, as the reconciler would."""

from collections.abc import Sequence

from reconciler.allocation.alignment import decide
from reconciler.analysis.attempt import Asked, NoFit, attempt
from reconciler.analysis.making_room.world import World
from reconciler.analysis.whatif.scenario import Unit
from reconciler.api.objects.core import Pod
from reconciler.api.objects.plan import Granted, Reason
from reconciler.errors import Rejected


class Placer:
    """Places units on one trial."""

    def __init__(self, world: World, steps: int) -> None:
        """`steps` are the devices that one decision tries on one node."""
        self.trial = world.trial()
        self._placement = world.placement()
        self._steps = steps

    def place(self, unit: Unit) -> NoFit | None:
        """Place a unit, which holds its devices from now on; or why it does not fit."""
        asked = Asked(tuple(unit.claims), unit.pod)
        found = attempt(asked, self.trial.snapshot, self._placement, steps=self._steps)
        if isinstance(found, NoFit):
            return found
        self.trial.place(found.plans, unit.pod, found.node)
        return None

    def fit_together(self, units: Sequence[Unit]) -> bool | None:
        """Whether units fit on the only node, wherever their devices are; None if that is not known.

        They hold their devices on it from now on if they fit.
        """
        trial = self.trial
        mark = trial.mark()
        claims = [claim for unit in units for claim in unit.claims]
        outcome = decide(claims, trial.snapshot, steps=self._steps)
        if not isinstance(outcome, Granted):
            return None if outcome.reason == Reason.GAVE_UP else False
        trial.place(outcome.plans)
        for unit in units:
            if unit.pod is None:
                continue
            try:
                choice = self._placement.for_pod(unit.pod, (), trial.snapshot)
            except Rejected:
                trial.back_to(mark)
                return False
            if choice.nodes is not None and not len(choice.nodes):
                trial.back_to(mark)
                return None if _minds_others(unit.pod) else False
            trial.place((), unit.pod, trial.snapshot.topology.order[0])
        return True


def _minds_others(pod: Pod) -> bool:
    """Whether other pods may decide where a pod can run, so that the order in which they come matters."""
    affinity = pod.spec.affinity
    near = affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity)
    return bool(near or pod.spec.topology_spread_constraints)
