"""The cheapest set of pods to evict so that a claim, a pod or a gang fits. Source: MAKE-1 to MAKE-6."""

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.analysis.relocation.bounds import Holds
from reconciler.analysis.relocation.leaving import Attempts, Move, leave, place_as_json
from reconciler.analysis.relocation.occupants import Occupant, Occupants, Pods
from reconciler.analysis.relocation.search import cheapest_set
from reconciler.analysis.relocation.victim_sets import NOTHING, Cost, Found, Pricing
from reconciler.analysis.world import NoFit, Place, Wanted, WantedGang, WantedPod, World
from reconciler.api.objects.claims import ALL, ResourceClaim
from reconciler.api.objects.core import claims_of
from reconciler.api.objects.gangs import gang_of
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.state.pods.terms import follows_others

TRIES = 2_000
"""Most sets of pods that are tried"""
COSTS = ("violations", "highestPriority", "priorities", "pods", "groups", "started", "devices", "names")
"""The costs in the order in which they are compared"""
NEVER = "PreemptionNever"
"""The reason if a pod wants nobody to be evicted"""
NOT_ENOUGH = "NoRoomToMake"
"""The reason if it would not fit even without all pods that may leave"""
GAVE_UP = "SearchGaveUp"
"""The reason if the steps did not suffice to find a set"""


class Advice(Struct, frozen=True):
    """Who has to leave so that something fits."""

    wanted: str
    """For people: `pod default/a`"""
    priority: int
    places: tuple[Place, ...] = ()
    """Where it fits then; empty if it does not"""
    victims: tuple[ObjectKey, ...] = ()
    moves: tuple[Move, ...] = ()
    """Each unit of victims, and where it could go"""
    devices: Mapping[ObjectKey, tuple[DeviceID, ...]] | None = None
    """Claim of a victim -> the devices that it held"""
    leaving: tuple[ObjectKey, ...] = ()
    """Pods that are being deleted already: they count as gone"""
    cost: Cost = NOTHING
    bound: Cost = NOTHING
    """No set costs less than this, as far as it was searched"""
    violated: Mapping[ObjectKey, int] | None = None
    """Budget -> evictions beyond what it allows"""
    optimal: bool = False
    """Whether it is proved that no set costs less; if there is no place, that no set exists"""
    refusal: NoFit | None = None
    """Why there is no place"""
    tries: int = 0
    """Sets that were tried"""

    @property
    def fits(self) -> bool:
        """Whether it fits when the victims are gone."""
        return self.refusal is None

    @property
    def proved(self) -> tuple[str, ...]:
        """The first costs that are proved to be the least."""
        if self.optimal:
            return COSTS
        same = 0
        while same < len(COSTS) and self.cost[same] == self.bound[same]:
            same += 1
        return COSTS[:same]

    def as_json(self) -> dict[str, Any]:
        """The field names are stable."""
        cost = {
            "violations": self.cost.violations,
            "highestPriority": self.cost.highest,
            "priorities": self.cost.priorities,
            "pods": self.cost.pods,
            "devices": self.cost.devices,
        }
        return {
            "wanted": self.wanted,
            "priority": self.priority,
            "fits": self.fits,
            "optimal": self.optimal,
            "provedCosts": list(self.proved),
            "cost": cost if self.victims else None,
            "budgetsViolated": [
                {"budget": str(key), "evictions": count} for key, count in (self.violated or {}).items()
            ],
            "evict": [move.as_json(self.devices or {}) for move in self.moves],
            "deletedAlready": [str(key) for key in self.leaving],
            "places": [place_as_json(one) for one in self.places],
            "refused": self.refusal.as_json() if self.refusal is not None else None,
            "setsTried": self.tries,
        }


def make_room(
    wanted: Wanted,
    world: World,
    *,
    moves_only: bool = False,
    tries: int = TRIES,
    may_leave: Callable[[Occupant], bool] = lambda _: True,
) -> Advice:
    """Who has to leave so that something fits, and where those could go. The world is as before afterwards.

    `moves_only`: only pods that are replaced leave, and all of them fit elsewhere. `may_leave` excludes pods
    besides those that cannot leave anyway.
    """
    with world.trial() as trial:
        asked = Advice(wanted.name, _priority_of(wanted))
        now = wanted.place(trial)
        if not isinstance(now, NoFit):
            return replace(asked, places=now, optimal=True)
        occupants = Occupants(world)
        leaving = frozenset(
            key for key, one in occupants.pods.items() if one.pod.metadata.deletion_timestamp is not None
        )
        if leaving:
            wanted = wanted.when_free(leave(trial, leaving, occupants))
            asked = replace(asked, leaving=tuple(sorted(leaving)), priority=_priority_of(wanted))
            then = wanted.place(trial)
            if not isinstance(then, NoFit):
                return replace(asked, places=then, optimal=True)
            occupants = Occupants(world, gone=leaving)
        if never := _never_preempts(wanted):
            off = next(filter(None, map(world.groups.off_policy, wanted.pods)), "")
            why = f"{now.message}; and preemptionPolicy of {never} is Never{off}"
            return replace(asked, refusal=NoFit(NEVER, why), optimal=True)
        own, fixed = {pod.key for pod in wanted.pods}, _claims_that_stay(wanted, world)

        def may_go(one: Occupant) -> bool:
            able = one.movable if moves_only else one.evictable
            able = able and one.priority < asked.priority and one.pod.key not in own
            return able and fixed.isdisjoint(one.claims) and may_leave(one)

        holds = Holds(occupants, trial.snapshot, may_go)
        attempts = Attempts(wanted, trial, occupants, tries)
        return _without_some(asked, holds, attempts, now, moves_only=moves_only)


def _without_some(asked: Advice, holds: Holds, attempts: Attempts, now: NoFit, *, moves_only: bool) -> Advice:
    """The cheapest set. `now` is why it does not fit as it is."""
    wanted, occupants, tries = attempts.wanted, attempts.occupants, attempts.left
    takes = _most_devices((*wanted.claims, *wanted.held))

    def least_spare(pods: Pods) -> int:
        return int(max(sum(map(holds.apart.__getitem__, occupants.freed(pods))) - takes, 0))

    pricing = Pricing(occupants, attempts.spare, least_spare)
    rejected: list[Pods] = []

    def accepts(pods: Pods) -> bool:
        able = attempts.all_move(pods)
        rejected.extend([] if able else [pods])
        return able

    found = cheapest_set(attempts, holds, pricing, accepts if moves_only else None)
    # What fits without some pods fits without more, unless it wants others near it.
    proved = found.proved and not rejected and not any(map(follows_others, wanted.pods))
    asked = replace(asked, optimal=proved, tries=tries - attempts.left)
    if found.pods is None:
        return replace(asked, refusal=_none(found, holds, asked, now, moves_only=moves_only))
    pods, cost = found.pods, pricing.of(found.pods)
    used = (occupants.pods[key].budgets for key in pods)
    return replace(
        asked,
        places=attempts.places(pods),
        victims=tuple(sorted(pods)),
        moves=attempts.moves(pods),
        devices={
            claim: tuple(one.id for one in occupants.allocations[claim].devices.results)
            for claim in occupants.freed(pods)
        },
        cost=cost,
        bound=cost if proved else min(found.bound, cost),
        violated={
            occupants.budgets.key(number): count for number, count in occupants.budgets.violated(used).items()
        },
    )


def _claims_that_stay(wanted: Wanted, world: World) -> frozenset[ObjectKey]:
    """Claims that stay as they are: gated pods hold them that are not placed with what is wanted."""
    own = {pod.key for pod in wanted.pods}
    if isinstance(wanted, WantedPod):
        held = {claim.key for claim in wanted.held}
        others = [pod for pod, _, _ in wanted.sharing if pod.key not in own]
        return frozenset(key for pod in others for key in claims_of(pod) if key in held)
    gangs, pods = wanted.question.groups, world.store.pods.values()
    seated = [pod for pod in pods if pod.gated and pod.key not in own and gang_of(pod) in gangs]
    return frozenset(key for pod in seated for key in claims_of(pod))


def _none(found: Found, holds: Holds, asked: Advice, now: NoFit, *, moves_only: bool) -> NoFit:
    """Why no set was found, and why it does not fit as it is: that may be no lack of room at all."""
    count, why_now = len(holds.eligible), f"without evictions: {now.message}"
    if not found.proved:
        return NoFit(GAVE_UP, f"gave up after {asked.tries} sets of pods")
    who = "pod that may be moved" if moves_only else "pod of lower priority"
    if not count:
        return NoFit(NOT_ENOUGH, f"there is no {who}; {why_now}")
    if count == 1:
        return NoFit(NOT_ENOUGH, f"the {who} does not make enough room; {why_now}")
    why = "cannot all go elsewhere" if moves_only else "do not make enough room"
    return NoFit(NOT_ENOUGH, f"the {count} {who.replace('pod', 'pods', 1)} {why}; {why_now}")


def _most_devices(claims: Iterable[ResourceClaim]) -> float:
    """No allocation of these claims has more devices; infinite if one may have all that there are."""
    requests = (request for claim in claims for request in claim.spec.devices.requests)
    either = ([one.exactly] if one.exactly is not None else one.first_available for one in requests)
    return sum(
        max((inf if one.allocation_mode == ALL else one.wanted for one in some), default=0) for some in either
    )


def _priority_of(wanted: Wanted) -> int:
    """Pods of lower priority may leave for it: below that of the lowest member of a gang, or of the lowest
    pod that shares a claim. Source: MAKE-1.
    """
    priorities = [pod.spec.priority or 0 for pod in wanted.pods]
    if wanted.priority is not None:
        others = priorities[1:] if isinstance(wanted, WantedPod) else []
        return min([wanted.priority, *others])
    return min(priorities, default=0)


def _never_preempts(wanted: Wanted) -> str:
    """Who wants nobody to leave for it, for people; empty if all agree that others leave. Source: MAKE-5."""
    never = [pod.key for pod in wanted.pods if pod.spec.preemption_policy == "Never"]
    if isinstance(wanted, WantedGang) and len(never) == len(wanted.pods):
        return wanted.name
    return f"pod {never[0]}" if never else ""
