"""What room is wanted for: a claim, the claims of a pod, or a gang. Asks the search that will place it."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from reconciler.allocation.alignment import decide
from reconciler.allocation.defaults import STEPS
from reconciler.allocation.dra.budget import UNLIMITED, Budget
from reconciler.allocation.gangs import decide_gang
from reconciler.allocation.gangs.question import GangGranted, GangQuestion
from reconciler.allocation.placement import refusal_reason
from reconciler.analysis.making_room.world import World
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted, Plan, Reason
from reconciler.errors import Rejected
from reconciler.state.devices.snapshot.node_subset import NodeSubset
from reconciler.state.trial import Trial


class Place(NamedTuple):
    """Where something fits."""

    pod: ObjectKey | None
    """None for a claim without a pod"""
    node: str
    plans: tuple[Plan, ...]


class Refusal(NamedTuple):
    """Why something does not fit."""

    reason: str
    """An identifier of `reasons`"""
    message: str


@dataclass(frozen=True, slots=True)
class WantedPod:
    """The pending claims of one pod, or one claim that no pod uses."""

    claims: tuple[ResourceClaim, ...]
    pod: Pod | None = None
    held: tuple[ResourceClaim, ...] = ()
    """Claims of the pod that are allocated already"""
    sharing: tuple[tuple[Pod, tuple[ResourceClaim, ...], tuple[int, ...]], ...] = ()
    """Other gated pods that use some of the claims: each with its allocated claims, and the positions of
    those in `claims`"""
    priority: int | None = None
    """Instead of the pod's"""

    @property
    def name(self) -> str:
        """For people: `pod default/a`, `claim default/b`."""
        if self.pod is not None:
            return f"pod {self.pod.key}"
        return ", ".join(f"claim {claim.key}" for claim in self.claims)

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The pods whose priority decides who may leave."""
        return () if self.pod is None else (self.pod,)

    def place(
        self,
        world: World,
        trial: Trial,
        *,
        on: str | None = None,
        steps: int = STEPS,
        budget: Budget = UNLIMITED,
    ) -> tuple[Place, ...] | Refusal:
        """Where it fits in a trial, on a node if one is named; holds nothing afterwards."""
        snapshot, placement = trial.snapshot, world.placement()
        together = None
        try:
            if self.pod is None:
                nodes = placement.for_claim(snapshot).nodes
            else:
                nodes = placement.for_pod(self.pod, self.held, snapshot).nodes
                if self.sharing:
                    own = self.pod, self.held, tuple(range(len(self.claims)))
                    together = placement.together([own, *self.sharing], snapshot)
                    if together is not None:
                        nodes = placement.reduced(nodes, together, snapshot)
        except Rejected as exc:
            return Refusal(refusal_reason(exc), str(exc))
        if on is not None:
            nodes = _only(nodes, on, snapshot.topology.order)
        key = self.pod.key if self.pod is not None else None
        if not self.claims:
            order = snapshot.topology.order
            found = next(iter(nodes if nodes is not None else order), None)
            if found is not None:
                return (Place(key, found, ()),)
            return Refusal(Reason.NO_NODE, self._left_out(world, trial) or "no node suits the pod")
        answer = decide(self.claims, snapshot, nodes=nodes, steps=steps, budget=budget, companions=together)
        if isinstance(answer, Granted):
            return (Place(key, answer.node, answer.plans),)
        more = self._left_out(world, trial) if on is None else ""
        return Refusal(str(answer.reason), "; ".join(filter(None, [answer.message, more])))

    def _left_out(self, world: World, trial: Trial) -> str:
        if self.pod is None:
            return ""
        return world.placement().left_out(self.pod, self.held, trial.snapshot)


@dataclass(frozen=True, slots=True)
class WantedGang:
    """The members of a gang that have no place yet."""

    question: GangQuestion
    priority: int | None = None
    """Instead of that of the members"""
    pods: tuple[Pod, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pods", tuple(member.pod for member in self.question.members))

    @property
    def name(self) -> str:
        """For people."""
        return f"gang {self.question.gang}"

    def place(
        self,
        world: World,  # noqa: ARG002 - as for a pod
        trial: Trial,
        *,
        on: str | None = None,
        steps: int = STEPS,
        budget: Budget = UNLIMITED,
    ) -> tuple[Place, ...] | Refusal:
        """Where its members fit in a trial; holds nothing afterwards. A gang has no single node."""
        assert on is None
        mark = trial.mark()
        answer = decide_gang(self.question, trial, steps=steps, budget=budget)
        trial.back_to(mark)
        if isinstance(answer, GangGranted):
            return tuple(Place(seat.pod, seat.node, seat.plans) for seat in answer.seats)
        return Refusal(answer.reason, answer.message)


Wanted = WantedPod | WantedGang


def priority_of(wanted: Wanted) -> int:
    """Pods of lower priority may leave for it: for a gang, below that of its lowest member."""
    if wanted.priority is not None:
        return wanted.priority
    return min((pod.spec.priority or 0 for pod in wanted.pods), default=0)


def preempts(wanted: Wanted) -> bool:
    """Whether all pods agree that others leave for them. Source: MAKE-5."""
    return all(pod.spec.preemption_policy != "Never" for pod in wanted.pods)


def _only(nodes: NodeSubset | None, name: str, order: tuple[str, ...]) -> NodeSubset:
    mask = np.zeros(len(order), dtype=np.bool_)
    at = order.index(name)
    mask[at] = nodes is None or bool(nodes.mask[at])
    return NodeSubset(order, mask)
