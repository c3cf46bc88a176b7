"""What room is wanted for: a claim, the claims of a pod, or a gang. Asks the search that will place it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from reconciler.allocation.defaults import STEPS
from reconciler.allocation.dra.budget import UNLIMITED, Budget
from reconciler.allocation.gangs import decide_gang
from reconciler.allocation.gangs.question import GangGranted, GangQuestion
from reconciler.analysis.attempt import Asked, NoFit, Sharing, attempt
from reconciler.analysis.making_room.world import World
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Plan
from reconciler.api.objects.requests import ALL
from reconciler.state.nominations.nomination import Nominee, of_claim, own_of_all
from reconciler.state.trial import Trial


class Place(NamedTuple):
    """Where something fits."""

    pod: ObjectKey | None
    """None for a claim without a pod"""
    node: str
    plans: tuple[Plan, ...]


@dataclass(frozen=True, slots=True)
class WantedPod:
    """The pending claims of one pod, or one claim that no pod uses."""

    claims: tuple[ResourceClaim, ...]
    pod: Pod | None = None
    held: tuple[ResourceClaim, ...] = ()
    """Claims of the pod that are allocated already"""
    sharing: tuple[Sharing, ...] = ()
    priority: int | None = None
    """Instead of the pod's"""

    @property
    def name(self) -> str:
        """For people: `pod default/a`, `claim default/b`."""
        if self.pod is not None:
            return f"pod {self.pod.key}"
        return ", ".join(f"claim {claim.key}" for claim in self.claims)

    @property
    def own(self) -> frozenset[Nominee]:
        """For whom room may be held that it uses."""
        return own_of_all(self.pods) | frozenset(of_claim(claim.key) for claim in self.claims)

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
    ) -> tuple[Place, ...] | NoFit:
        """Where it fits in a trial, on a node if one is named; holds nothing afterwards."""
        asked = Asked(self.claims, self.pod, self.held, self.sharing)
        found = attempt(asked, trial.snapshot, world.placement(), steps=steps, budget=budget, on=on)
        if isinstance(found, NoFit):
            return found
        return (Place(self.pod.key if self.pod is not None else None, found.node, found.plans),)


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
    def own(self) -> frozenset[Nominee]:
        """For whom room may be held that it uses."""
        return own_of_all(self.pods)

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
    ) -> tuple[Place, ...] | NoFit:
        """Where its members fit in a trial; holds nothing afterwards. A gang has no single node."""
        assert on is None
        mark = trial.mark()
        answer = decide_gang(self.question, trial, steps=steps, budget=budget)
        trial.back_to(mark)
        if isinstance(answer, GangGranted):
            return tuple(Place(seat.pod, seat.node, seat.plans) for seat in answer.seats)
        return NoFit(answer.reason, answer.message)

    @property
    def claims(self) -> tuple[ResourceClaim, ...]:
        """The claims of all members that need devices."""
        return tuple(claim for member in self.question.members for claim in member.claims)


Wanted = WantedPod | WantedGang


def most_devices(claims: Iterable[ResourceClaim]) -> float:
    """No allocation of these claims has more devices; infinite if one may have all that there are."""
    requests = (request for claim in claims for request in claim.spec.devices.requests)
    either = ([one.exactly] if one.exactly is not None else one.first_available for one in requests)
    return sum(
        max((inf if one.allocation_mode == ALL else one.wanted for one in some), default=0) for some in either
    )


def priority_of(wanted: Wanted) -> int:
    """Pods of lower priority may leave for it: for a gang, below that of its lowest member."""
    if wanted.priority is not None:
        return wanted.priority
    return min((pod.spec.priority or 0 for pod in wanted.pods), default=0)


def preempts(wanted: Wanted) -> bool:
    """Whether all pods agree that others leave for them. Source: MAKE-5."""
    return all(pod.spec.preemption_policy != "Never" for pod in wanted.pods)
