"""The cheapest set of pods to evict so that a claim, a pod or a gang fits. Source: MAKE-1 to MAKE-6."""

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from reconciler.analysis.attempt import NoFit
from reconciler.analysis.defaults import TRIES
from reconciler.analysis.relocation.bounds import Holds
from reconciler.analysis.relocation.for_gang import search_gang
from reconciler.analysis.relocation.for_pod import search_nodes
from reconciler.analysis.relocation.leaving import Attempts, Move, all_move, leave, move_all, settle
from reconciler.analysis.relocation.occupants import Occupant, Occupants, Pods
from reconciler.analysis.relocation.victim_sets import NOTHING, Cost, Found, Pricing
from reconciler.analysis.relocation.wanted import (
    Place,
    Wanted,
    WantedGang,
    WantedPod,
    most_devices,
    never_preempts,
    priority_of,
)
from reconciler.analysis.relocation.world import World
from reconciler.api.objects.core import claims_of
from reconciler.api.objects.gangs import gang_of
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.state.trial import Trial

COSTS = ("violations", "highestPriority", "priorities", "pods", "started", "devices", "names")
"""The costs in the order in which they are compared"""


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


NEVER = "PreemptionNever"
"""The reason if a pod wants nobody to be evicted"""
NOT_ENOUGH = "NoRoomToMake"
"""The reason if it would not fit even without all pods that may leave"""
GAVE_UP = "SearchGaveUp"
"""The reason if the steps did not suffice to find a set"""


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
        return _Question(wanted, world, trial, moves_only, tries, may_leave).answer()


class _Question(Struct):
    """One question."""

    wanted: Wanted
    world: World
    trial: Trial
    moves_only: bool
    tries: int
    may_leave: Callable[[Occupant], bool]

    def answer(self) -> Advice:
        asked = Advice(self.wanted.name, priority_of(self.wanted))
        now = self.wanted.place(self.world, self.trial)
        if not isinstance(now, NoFit):
            return replace(asked, places=now, optimal=True)
        occupants = self._occupants(frozenset())
        leaving = frozenset(
            key for key, one in occupants.pods.items() if one.pod.metadata.deletion_timestamp is not None
        )
        if leaving:
            freed = leave(self.trial, leaving, occupants, self.world)
            self.wanted = self.wanted.when_free(freed)
            asked = replace(asked, leaving=tuple(sorted(leaving)), priority=priority_of(self.wanted))
            then = self.wanted.place(self.world, self.trial)
            if not isinstance(then, NoFit):
                return replace(asked, places=then, optimal=True)
            occupants = self._occupants(leaving)
        if (pod := never_preempts(self.wanted)) is not None:
            why = f"{now.message}; and preemptionPolicy of pod {pod.key} is Never"
            return replace(asked, refusal=NoFit(NEVER, why), optimal=True)
        return self._without_some(asked, occupants, now)

    def _occupants(self, gone: Pods) -> Occupants:
        world = self.world
        return Occupants(world.store, world.nodes, world.groups, world.budgets, gone=gone)

    def _without_some(self, asked: Advice, occupants: Occupants, now: NoFit) -> Advice:
        own, fixed = {pod.key for pod in self.wanted.pods}, self._of_others()

        def may_leave(one: Occupant) -> bool:
            able = one.movable if self.moves_only else one.evictable
            able = able and one.priority < asked.priority and one.pod.key not in own
            return able and fixed.isdisjoint(one.claims) and self.may_leave(one)

        holds = Holds(occupants, self.trial.snapshot, may_leave)
        attempts = Attempts(self.wanted, self.world, self.trial, occupants, self.tries)
        takes = most_devices((*self.wanted.claims, *self.wanted.held))

        def least_spare(pods: Pods) -> int:
            return int(max(sum(map(holds.apart.__getitem__, occupants.freed(pods))) - takes, 0))

        pricing = Pricing(occupants, attempts.spare, least_spare)
        rejected: list[Pods] = []

        def moves(pods: Pods) -> bool:
            if not self._all_move(pods, attempts, occupants):
                rejected.append(pods)
                return False
            return True

        accepts = moves if self.moves_only else None
        search = search_gang if isinstance(self.wanted, WantedGang) else search_nodes
        found = search(attempts, holds, pricing, accepts)
        spent = self.tries - attempts.left
        proved = found.proved and not rejected and self._monotone()
        if found.pods is None:
            refusal = self._none(found, holds, attempts, now)
            return replace(asked, refusal=refusal, optimal=proved, tries=spent)
        cost = pricing.of(found.pods)
        bound = cost if proved else min(found.bound, cost)
        return self._advice(
            replace(asked, cost=cost, bound=bound, optimal=proved, tries=spent), found.pods, attempts
        )

    def _of_others(self) -> frozenset[ObjectKey]:
        """Claims that stay as they are: gated pods hold them that are not placed with what is wanted."""
        own = {pod.key for pod in self.wanted.pods}
        if isinstance(self.wanted, WantedPod):
            held = {claim.key for claim in self.wanted.held}
            others = [pod for pod, _, _ in self.wanted.sharing if pod.key not in own]
            return frozenset(key for pod in others for key in claims_of(pod) if key in held)
        gang, pods = self.wanted.question.gang, self.world.store.pods.values()
        seated = [pod for pod in pods if pod.gated and pod.key not in own and gang_of(pod) == gang]
        return frozenset(key for pod in seated for key in claims_of(pod))

    def _monotone(self) -> bool:
        """Whether what fits without some pods fits without more: pods may want others near them."""
        for pod in self.wanted.pods:
            affinity = pod.spec.affinity
            if (affinity is not None and affinity.pod_affinity is not None) or (
                pod.spec.topology_spread_constraints
            ):
                return False
        return True

    def _all_move(self, pods: Pods, attempts: Attempts, occupants: Occupants) -> bool:
        mark, places = self.trial.mark(), attempts.places(pods)
        leave(self.trial, pods, occupants, self.world)
        self._settle(places)
        found = move_all(pods, occupants, self.world, self.trial)
        self.trial.back_to(mark)
        return all_move(found)

    def _settle(self, places: tuple[Place, ...]) -> None:
        settle(places, {pod.key: pod for pod in self.wanted.pods}, self.trial)

    def _advice(self, asked: Advice, pods: Pods, attempts: Attempts) -> Advice:
        occupants, places = attempts.occupants, attempts.places(pods)
        devices = {
            claim: tuple(one.id for one in occupants.allocations[claim].devices.results)
            for claim in occupants.freed(pods)
        }
        leave(self.trial, pods, occupants, self.world)
        self._settle(places)
        moves = move_all(pods, occupants, self.world, self.trial)
        used = (occupants.pods[key].budgets for key in pods)
        violated = {
            occupants.budgets.key(number): count for number, count in occupants.budgets.violated(used).items()
        }
        return replace(
            asked,
            places=places,
            victims=tuple(sorted(pods)),
            moves=moves,
            devices=devices,
            violated=violated,
        )

    def _none(self, found: Found, holds: Holds, attempts: Attempts, now: NoFit) -> NoFit:
        """Why no set was found, and why it does not fit as it is: that may be no lack of room at all."""
        count, why_now = len(holds.eligible), f"without evictions: {now.message}"
        if not found.proved:
            return NoFit(GAVE_UP, f"gave up after {self.tries - attempts.left} sets of pods")
        who = "pod that may be moved" if self.moves_only else "pod of lower priority"
        if not count:
            return NoFit(NOT_ENOUGH, f"there is no {who}; {why_now}")
        who = who.replace("pod", f"{count} pods", 1) if count > 1 else f"the {who}"
        why = "cannot all go elsewhere" if self.moves_only else "do not make enough room"
        why = f"the {who} {why}" if count > 1 else f"{who} does not make enough room"
        return NoFit(NOT_ENOUGH, f"{why}; {why_now}")
