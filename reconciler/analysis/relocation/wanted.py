"""What room is wanted for: a claim, the claims of a pod, or a gang. Asks the search that will place it."""

import dataclasses
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf, isinf
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from reconciler.allocation.alignment.preferences import has_preferences
from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.dra.budget import STEPS, UNLIMITED, Budget, Fatal
from reconciler.allocation.dra.node_attempt import only_rows
from reconciler.allocation.gangs.deciding import decide_gang
from reconciler.allocation.gangs.kinds import GangGranted, GangQuestion, Member
from reconciler.analysis.attempt import Asked, NoFit, Sharing, attempt
from reconciler.analysis.relocation.world import World
from reconciler.api.objects.claims import ALL, Allocation, ResourceClaim, ResourceClaimStatus
from reconciler.api.objects.core import Pod, claims_of
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted, Plan
from reconciler.state.nominations import Nominee, of_claim, own_of_all
from reconciler.state.trial import Trial


def again(claim: ResourceClaim) -> ResourceClaim:
    """A claim like this one, not allocated. Its uid cannot occur on a server."""
    metadata = claim.metadata.model_copy(update={"uid": _new_uid(claim)})
    return claim.model_copy(update={"metadata": metadata, "status": ResourceClaimStatus()})


def settled(claim: ResourceClaim, trial: Trial) -> bool:
    """Whether a claim that several pods share has a place again."""
    return trial.store.assumed(_new_uid(claim)) is not None


def held_again(claim: ResourceClaim, trial: Trial) -> ResourceClaim:
    """A claim like this one, with the place that it has again."""
    plan = trial.store.assumed(_new_uid(claim))
    assert plan is not None
    return claim.model_copy(update={"status": ResourceClaimStatus(allocation=plan.allocation)})


def _new_uid(claim: ResourceClaim) -> str:
    return f"again {claim.key}"


class Place(NamedTuple):
    """Where something fits."""

    pod: ObjectKey | None
    """None for a claim without a pod"""
    node: str
    plans: tuple[Plan, ...]


class WantedPod(Struct, frozen=True):
    """The pending claims of one pod, or one claim that no pod uses."""

    claims: tuple[ResourceClaim, ...]
    pod: Pod | None = None
    held: tuple[ResourceClaim, ...] = ()
    """Claims of the pod that are allocated already"""
    sharing: tuple[Sharing, ...] = ()
    """The other gated pods that use any of its claims; positions are those in `claims`, then in `held`"""
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
    def beside(self) -> tuple[Sharing, ...]:
        """The gated pods that share claims which need devices: these have to suit them, too."""
        count = len(self.claims)
        found = ((pod, held, tuple(at for at in shared if at < count)) for pod, held, shared in self.sharing)
        return tuple(one for one in found if one[2])

    @property
    def all_held(self) -> tuple[ResourceClaim, ...]:
        """What it holds, and what the pods hold that share its claims: all of it says where it can run."""
        return (*self.held, *(claim for _, held, _ in self.sharing for claim in held))

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The pods whose priority decides who may leave."""
        return () if self.pod is None else (self.pod, *(pod for pod, _, _ in self.beside))

    def when_free(self, freed: Container[ObjectKey]) -> "WantedPod":
        """The same when some claims are free: those that it held need devices again."""
        every = [self.held, *(held for _, held, _ in self.sharing)]
        if self.pod is None or not any(claim.key in freed for held in every for claim in held):
            return self
        claims, held = _when_free(self.pod, self.claims, self.held, freed)
        keys = [claim.key for claim in (*claims, *held)]
        sharing = []
        for pod, of_pod, _ in self.sharing:
            names = claims_of(pod)
            sharing.append(
                (pod, _kept(of_pod, freed), tuple(at for at, key in enumerate(keys) if key in names))
            )
        return replace(self, claims=claims, held=held, sharing=tuple(sharing))

    def at_most(self, freed: Sequence[ObjectKey], regained: Container[ObjectKey]) -> "WantedPod":
        """At most what `when_free` asks for: it fits if that fits where any of these claims are not freed.

        Of those that it held, only the ones that regain the same need devices again. Pods that held some of
        them do not count: one that suits no node counts for nothing, until its claim is free.
        """
        sharing = tuple(one for one in self.beside if not any(claim.key in freed for claim in one[1]))
        held = _kept(self.held, [key for key in freed if key not in regained])
        return replace(self, held=held, sharing=sharing).when_free(freed)

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
        asked = Asked(self.claims, self.pod, self.held, self.beside)
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

    @property
    def held(self) -> tuple[ResourceClaim, ...]:
        """Claims of members that are allocated already."""
        return tuple(claim for member in self.question.members for claim in member.held)

    @property
    def all_held(self) -> tuple[ResourceClaim, ...]:
        """The same: other pods that share them are not considered."""
        return self.held

    def when_free(self, freed: Container[ObjectKey]) -> "WantedGang":
        """The same when some claims are free: those that members held need devices again."""
        if not any(claim.key in freed for claim in self.held):
            return self
        members = tuple(
            Member(one.pod, *_when_free(one.pod, one.claims, one.held, freed))
            for one in self.question.members
        )
        return WantedGang(dataclasses.replace(self.question, members=members), self.priority)

    def at_most(self, freed: Sequence[ObjectKey], regained: Container[ObjectKey]) -> "WantedGang":
        """At most what `when_free` asks for: it fits if that fits where any of these claims are not freed.

        Of those that members held, only the ones that regain the same need devices again.
        """
        lost = [key for key in freed if key not in regained]
        members = tuple(replace(one, held=_kept(one.held, lost)) for one in self.question.members)
        return WantedGang(dataclasses.replace(self.question, members=members), self.priority).when_free(freed)


def _kept(held: Iterable[ResourceClaim], freed: Container[ObjectKey]) -> tuple[ResourceClaim, ...]:
    return tuple(claim for claim in held if claim.key not in freed)


def _when_free(
    pod: Pod, claims: Sequence[ResourceClaim], held: Sequence[ResourceClaim], freed: Container[ObjectKey]
) -> tuple[tuple[ResourceClaim, ...], tuple[ResourceClaim, ...]]:
    """The claims of a pod that need devices when some are free, in its order, and those still held."""
    released = [again(claim) for claim in held if claim.key in freed]
    needed = sorted([*claims, *released], key=lambda claim: claims_of(pod).index(claim.key))
    return tuple(needed), _kept(held, freed)


Wanted = WantedPod | WantedGang


def most_devices(claims: Iterable[ResourceClaim]) -> float:
    """No allocation of these claims has more devices; infinite if one may have all that there are."""
    requests = (request for claim in claims for request in claim.spec.devices.requests)
    either = ([one.exactly] if one.exactly is not None else one.first_available for one in requests)
    return sum(
        max((inf if one.allocation_mode == ALL else one.wanted for one in some), default=0) for some in either
    )


def priority_of(wanted: Wanted) -> int:
    """Pods of lower priority may leave for it: below that of the lowest member of a gang, or of the lowest
    pod that shares a claim. Source: MAKE-1.
    """
    priorities = [pod.spec.priority or 0 for pod in wanted.pods]
    if wanted.priority is not None:
        others = priorities[1:] if isinstance(wanted, WantedPod) else []
        return min([wanted.priority, *others])
    return min(priorities, default=0)


def never_preempts(wanted: Wanted) -> Pod | None:
    """A pod that wants nobody to leave for it; None if all agree that others leave. Source: MAKE-5."""
    return next((pod for pod in wanted.pods if pod.spec.preemption_policy == "Never"), None)


def regains(claim: ResourceClaim, allocation: Allocation, trial: Trial) -> bool:
    """Whether a claim gets exactly what it has if it alone is free, and needs devices again.

    If so, what fits while it keeps that also fits where it is free, and more besides, and is placed again.
    Not looked into, so not said of claims with devices of several nodes, all devices, or preferences.
    """
    snapshot = trial.snapshot
    fleet, topology = snapshot.fleet, snapshot.topology
    rows = [row for result in allocation.devices.results for row in fleet.rows_of(result.id)]
    places = set(topology.place_of[fleet.codes["node"][rows]].tolist()) if rows else set()
    if len(places) != 1 or places == {-1}:
        return False
    if isinf(most_devices([claim])) or has_preferences([claim], snapshot.classes):
        return False
    del snapshot, fleet  # the release would copy them
    mark, node = trial.mark(), topology.order[places.pop()]
    trial.release(claim.metadata.uid)
    try:
        wanted, free = [again(claim)], trial.snapshot
        found = allocate(wanted, free, nodes=[node], only=only_rows(wanted, rows, free))
    except Fatal:
        return False
    finally:
        trial.back_to(mark)
    return isinstance(found, Granted) and _what_it_takes(found.plans[0].allocation) == _what_it_takes(
        allocation
    )


def _what_it_takes(allocation: Allocation) -> tuple[object, ...]:
    """What nobody else can have because of an allocation, and where it can be used."""
    results = sorted(allocation.devices.results, key=lambda one: (one.id, one.request))
    each = [(one.id, bool(one.admin_access), one.consumed_capacity) for one in results]
    return each, allocation.node_selector
