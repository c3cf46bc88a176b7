"""Advice to move pods, as values: which moves, who may move, when to plan, and a plan that is carried out."""

from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple

from msgspec import Struct, field

from reconciler.aio.tasks import ShouldContinue
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod, claims_of, controller_of
from reconciler.api.objects.meta import DeviceID, ObjectKey, OwnerReference
from reconciler.control.relocation.ground import Victim
from reconciler.control.relocation.relocator import Question
from reconciler.state.nominations import HeldPlace, Nominee, of_replacement
from reconciler.state.store import Store


class Relocation(NamedTuple):
    """A pod to evict, and the place for what replaces it."""

    victim: Victim
    controller: OwnerReference
    priority: int
    node: str
    devices: tuple[DeviceID, ...]
    """What it holds now"""
    to: HeldPlace
    gains: str
    """The counter set, group or node that gains"""

    @property
    def nominee(self) -> Nominee:
        """For whom the place is held."""
        return of_replacement(self.victim.key.namespace, self.controller)

    def __str__(self) -> str:
        return f"{self.victim.key} from {self.node} to {self.to.node}"


class MovesAdvice(Struct, frozen=True):
    """The moves for one goal."""

    goal: str
    """As the settings spell it"""
    counted: str = ""
    """What is counted, in the singular: `device of 7g.40gb`"""
    before: int = 0
    after: int = 0
    wanted: int = 0
    """How many are wanted at least"""
    moves: tuple[Relocation, ...] = ()
    """In the order in which each fits"""
    why: str = ""
    """Why there are no moves; empty if there are, or if nothing is wanted"""


PlanMoves = Callable[[Question, ShouldContinue], tuple[MovesAdvice, ...]]
"""Finds advice for each goal, in any thread"""
TryMoves = Callable[[Question, MovesAdvice, ShouldContinue], str]
"""Why what is left of some advice cannot be carried out any more, in any thread. Empty if it can"""


class StandingAdvice:
    """Changed by the rebalancer alone."""

    def __init__(self) -> None:
        self.lines: tuple[MovesAdvice, ...] = ()
        """One for each goal, in their order; empty before the first plan"""
        self.without_budgets = False
        """Whether budgets could not be considered"""

    def note(self, found: tuple[MovesAdvice, ...]) -> list[MovesAdvice]:
        """Keep advice. Returns what of it has moves that were not known before."""
        before = set(self.lines)
        self.lines = found
        return [one for one in found if one.moves and one not in before]

    def forget(self) -> None:
        """Keep nothing: somebody else leads."""
        self.lines = ()

    def gains(self) -> dict[str, float]:
        """Goal -> how much the advised moves gain."""
        return {one.goal: float(one.after - one.before) for one in self.lines}

    def moves(self) -> dict[str, float]:
        """Goal -> how many pods would be moved."""
        return {one.goal: float(len(one.moves)) for one in self.lines}


MOVABLE = "dra-reconciler.io/movable"
"""The label by which a pod opts in with `true`, or out of what its namespace says with `false`"""


class Allowed(Struct, frozen=True):
    """What the settings allow."""

    namespaces: frozenset[str]
    """Namespaces whose pods are opted in"""
    max_priority: int
    """Pods of a higher priority are never moved"""

    def permits(self, pod: Pod) -> bool:
        """Whether a pod may be moved."""
        if (pod.spec.priority or 0) > self.max_priority:
            return False
        said = pod.metadata.labels.get(MOVABLE)
        return said == "true" or (said is None and pod.key.namespace in self.namespaces)


PATIENCE = 10
"""Calm times after which advice is renewed although the fleet never rests"""


class Calm:
    """Told of the state again and again. Costs nothing while nothing changes."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._state: Hashable = None
        self._since = float("-inf")
        """When the state was first seen as it is"""
        self._planned: Hashable = None
        self._planned_at: float | None = None

    def due(self, state: Hashable, now: float) -> bool:
        """Whether it is time for a plan."""
        if state != self._state:
            self._state, self._since = state, now
        if self._planned_at is None:
            self._planned_at = now  # from here on the patience counts
        if state == self._planned:
            return False
        return self.rests(now) or now - self._planned_at >= PATIENCE * self._seconds

    def rests(self, now: float) -> bool:
        """Whether nothing has changed for a calm time."""
        return now - self._since >= self._seconds

    def planned(self, state: Hashable, began: float, now: float) -> None:
        """A plan was made from a state. One that did not rest is planned once more when it does."""
        self._planned, self._planned_at = state if self.rests(began) else None, now

    def again(self) -> None:
        """Plan once more, although nothing changed."""
        self._planned = None


class MovesCampaign(Struct):
    """What is left of it."""

    advice: MovesAdvice
    """Pods that have moved, and the one that moves, are not among its moves any more"""
    moving: Relocation | None = None
    """The pod that was evicted last, until what replaces it runs"""
    before: frozenset[str] = field(default_factory=frozenset)
    """Uids of the pods of its controller when it was evicted"""
    asked: bool = False
    """Whether the place of the next move is held, and its eviction was requested"""
    not_before: float = 0.0
    """When the next eviction may be requested"""
    tries: int = 0
    """How often the next move was tried and found outdated"""
    deadline: float | None = None
    """Until when the replacement is to run; None until it has its place"""


def siblings(move: Relocation, store: Store) -> list[Pod]:
    """The pods of the controller of a pod that is moved."""
    namespace, uid = move.victim.key.namespace, move.controller.uid
    return [
        pod
        for pod in store.pods.values()
        if pod.key.namespace == namespace and (found := controller_of(pod)) is not None and found.uid == uid
    ]


def replacement(move: Relocation, store: Store) -> Pod | None:
    """The pod whose claims hold all of the place that was held; None if there is none yet."""
    found: Pod | None = None
    for device in move.to.devices:
        pods = [_pod_of(store.claims.get(one.claim), one.uid, store) for one in store.holders(device)]
        new = [pod for pod in pods if pod is not None and pod.metadata.uid != move.victim.uid]
        if not new or (found is not None and new[0] is not found):
            return None
        found = new[0]
    return found


def astray(move: Relocation, before: frozenset[str], store: Store) -> str:
    """Why no pod will come to the place that is held: the one that could is elsewhere. Empty if one may.

    The claims of a pod are written one after the other: it may have a part of the place.
    """
    place = set(move.to.devices)
    for pod in siblings(move, store):
        if pod.metadata.uid in before or pod.finished:
            continue
        claims = [claim for key in claims_of(pod) if (claim := store.claims.get(key)) is not None]
        if not {device for claim in claims for device in _devices(claim)} <= place:
            return f"pod {pod.key}, which replaces pod {move.victim.key}, got other devices"
        if not pod.gated:
            return f"pod {pod.key}, which replaces pod {move.victim.key}, does not have our scheduling gate"
    return ""


def _devices(claim: ResourceClaim) -> Iterator[DeviceID]:
    """The devices that a claim holds. Admin access holds none, so that no place has them (AS-1)."""
    if claim.allocation is not None:
        yield from claim.allocation.held


def _pod_of(claim: ResourceClaim | None, uid: str, store: Store) -> Pod | None:
    """The pod that an allocated claim was made for from a template."""
    if claim is None or claim.metadata.uid != uid or claim.allocation is None:
        return None
    for owner in claim.metadata.owner_references:
        pod = store.pods.get(ObjectKey(claim.key.namespace, owner.name)) if owner.controller else None
        if pod is not None and pod.metadata.uid == owner.uid:
            return pod
    return None
