"""What a unit needs next, read off the picture as it is now. Decides nothing about devices."""

from dataclasses import dataclass, field

from reconciler.allocation.placement import Placement
from reconciler.api.objects.claims import FINALIZER, ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Reason
from reconciler.api.objects.pods import claims_of, is_live
from reconciler.control.audit.losing_claim import lost, written_by_us
from reconciler.control.audit.reclaimed import ReclaimedByScheduler
from reconciler.control.ownership import Ownership
from reconciler.control.queueing.units import Kind, Roster, Unit
from reconciler.errors import Rejected
from reconciler.ha.shards.membership import Membership, Side
from reconciler.state.devices.snapshot.node_subset import Chosen
from reconciler.state.store import Store

NOT_OURS = "NotOurs"
"""The reason where devices may be free, but belong to another allocator."""

LEFT = "LeftToScheduler"
"""The reason where kube-scheduler took an allocation back."""

SEVERAL = "NeedsSeveralShards"
"""The reason where no shard alone has what is asked for, as far as can be told without looking at devices."""


NOT_FOUND, NOT_MADE, DELETING = "ClaimNotFound", "ClaimNotMade", "ClaimDeleting"
"""The reasons where a claim is not there, is not made from its template yet, or is going."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """All is as it should be, or somebody else's turn."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """Something has to happen to the unit's own objects first. Their change brings the unit back."""

    claims: tuple[ObjectKey, ...]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Decide:
    """Find devices for these claims together."""

    claims: tuple[ResourceClaim, ...]
    nodes: Chosen | None
    """Where; None for anywhere"""
    held: tuple[ResourceClaim, ...] = ()
    """Claims of the same pod that are allocated already"""
    pod: Pod | None = field(default=None, compare=False)
    """For which they are decided together, if for any"""
    crowded: bool = False
    """Whether nodes are left out because other pods take what the pod needs"""


@dataclass(frozen=True, slots=True)
class Free:
    """A claim holds something, or our finalizer, to no purpose."""

    claim: ResourceClaim
    why: str
    rival: ObjectKey | None = None
    """The claim that makes it so, to be read again before anything is undone"""


@dataclass(frozen=True, slots=True)
class Ungate:
    """All claims of the pod are allocated."""

    pod: Pod


Step = Nothing | Blocked | Decide | Free | Ungate


class Planner:
    """Reads the picture. Changes nothing."""

    def __init__(
        self,
        store: Store,
        roster: Roster,
        placement: Placement,
        ours: Ownership,
        reclaimed: ReclaimedByScheduler,
    ) -> None:
        self._store = store
        self._roster = roster
        self._placement = placement
        self._reclaimed = reclaimed
        self._ours = ours

    def next(self, unit: Unit) -> Step:
        """What the unit needs."""
        if unit.kind is Kind.POD:
            pod = self._store.pods.get(unit.key)
            return self._pod(pod) if pod is not None and is_live(pod) else Nothing()
        claim = self._store.claims.get(unit.key)
        return self._claim(claim) if claim is not None else Nothing()

    def _claim(self, claim: ResourceClaim) -> Step:
        where = self._side(claim)
        if where.side is Side.ELSEWHERE:
            return Nothing()
        if claim.deleting:  # also one that no shard can tell for its own: it holds nothing, whoever frees it
            return self._deleted(claim)
        if claim.allocation is not None:
            return self._held(claim)
        if not self._ours.claims(claim) or self._pending(claim):
            return Nothing()
        if self._roster.users(claim.key):  # its pods decide, who know on which nodes they may run
            return Nothing()
        if where.side is Side.SEVERAL:
            return Blocked((claim.key,), SEVERAL, f"claim {claim.key}: {where.why}")
        problem = self._problem(claim.key, None)
        return problem or self._allowed((claim,)) or Decide((claim,), self._open())

    def _held(self, claim: ResourceClaim) -> Step:
        """An allocation of ours goes where it lost a race, or where nobody else would free it (RCC-3)."""
        if claim.status.reserved_for or not written_by_us(claim):
            return Nothing()
        if (found := lost(claim, self._store)) is not None:
            return Free(claim, str(found), found.winner)
        if self._ours.claims(claim) or self._roster.users(claim.key):
            return Nothing()
        return Free(claim, "the pods it was allocated for are gone")

    def _deleted(self, claim: ResourceClaim) -> Step:
        idle = (
            FINALIZER not in claim.metadata.finalizers
            or claim.status.reserved_for
            or self._pending(claim)
            or not self._ours.frees(claim)
        )
        return Nothing() if idle else Free(claim, "deleted, and nobody uses it")

    def _pod(self, pod: Pod) -> Step:
        keys = claims_of(pod)
        if not pod.gated and not any(self._decidable(key) for key in keys):
            return Nothing()
        apart = self._apart(pod, keys)
        if isinstance(apart, Nothing):
            return apart
        missing = sorted(name for name, claim in pod.claim_names().items() if claim is None)
        if missing:
            return Blocked(keys, NOT_MADE, f"no claim was made yet from the template of {missing[0]}")
        for key in keys:
            if (problem := self._problem(key, pod)) is not None:
                return Blocked(keys, problem.reason, problem.message)
        if apart is not None:
            return apart
        claims = [self._store.claims[key] for key in keys]
        if any(self._pending(claim) for claim in claims):
            return Nothing()  # whoever writes it puts us back when it is written
        if any(claim in self._reclaimed for claim in claims):
            return Blocked(keys, LEFT, "kube-scheduler took back what we allocated, and decides itself")
        held = tuple(claim for claim in claims if claim.allocation is not None)
        todo = tuple(c for c in claims if c.allocation is None and (pod.gated or self._ours.claims(c)))
        if not todo:
            return Ungate(pod) if pod.gated else Nothing()
        return self._allowed(todo) or self._placed(pod, todo, held)

    def _apart(self, pod: Pod, keys: tuple[ObjectKey, ...]) -> Blocked | Nothing | None:
        """What shards make of a pod: nothing of it is ours, or not all. None: it is ours as a whole."""
        if self._ours.shard.whole or not keys:
            return None
        there = [claim for key in keys if (claim := self._store.claims.get(key)) is not None]
        concerned = [claim for claim in there if pod.gated or self._ours.claims(claim)]
        sides = [self._side(claim) for claim in concerned]
        if all(where.side is Side.ELSEWHERE for where in sides):
            return Nothing()  # also where none was made yet: its coming brings the pod back
        for claim, where in zip(concerned, sides, strict=True):
            if where.side is Side.SEVERAL:
                return Blocked(keys, SEVERAL, f"claim {claim.key}: {where.why}")
            if where.side is Side.ELSEWHERE:
                return Blocked(
                    keys, SEVERAL, f"claim {claim.key} belongs to another shard than others of its pod"
                )
        return None

    def _placed(self, pod: Pod, todo: tuple[ResourceClaim, ...], held: tuple[ResourceClaim, ...]) -> Step:
        try:
            found = self._placement.for_pod(pod, held, self._store.snapshot())
        except Rejected as exc:
            return Blocked(tuple(claim.key for claim in todo), Reason.NODE_SELECTOR, str(exc))
        return Decide(todo, found.nodes, held, pod, found.crowded)

    def left_out(self, question: Decide) -> str:
        """Why nodes were left out of a question about a pod, for people; empty if none was."""
        if question.pod is None:
            return ""
        return self._placement.left_out(question.pod, question.held, self._store.snapshot())

    def _side(self, claim: ResourceClaim) -> Membership:
        return self._ours.side(claim, lambda: self._store.snapshot().classes)

    def _open(self) -> Chosen | None:
        return self._placement.for_claim(self._store.snapshot()).nodes

    def _decidable(self, key: ObjectKey) -> bool:
        claim = self._store.claims.get(key)
        return claim is not None and claim.allocation is None and self._ours.claims(claim)

    def _pending(self, claim: ResourceClaim) -> bool:
        return self._store.assumed(claim.metadata.uid) is not None

    def _problem(self, key: ObjectKey, pod: Pod | None) -> Blocked | None:
        """Why a claim cannot be used by a pod, or on its own, whatever devices there are (SCHED-1)."""
        refused = self._store.refused.get(("ResourceClaim", key))
        if refused is not None:
            return Blocked((key,), "ClaimRefused", refused)
        claim = self._store.claims.get(key)
        if claim is None:
            return Blocked((key,), NOT_FOUND, f"claim {key} does not exist")
        if claim.deleting:
            return Blocked((key,), DELETING, f"claim {key} is being deleted")
        if pod is not None and _made_for_another(claim, pod):
            return Blocked((key,), "ClaimOfOtherPod", f"claim {key} was made from a template for another pod")
        return None

    def _allowed(self, claims: tuple[ResourceClaim, ...]) -> Blocked | None:
        for claim in claims:
            if (foreign := self._ours.foreign_class(claim)) is not None:
                keys = tuple(claim.key for claim in claims)
                return Blocked(keys, NOT_OURS, f"claim {claim.key}: {foreign}")
        return None


def _made_for_another(claim: ResourceClaim, pod: Pod) -> bool:
    by_template = {e.name for e in pod.spec.resource_claims if e.resource_claim_template_name is not None}
    made = {name for entry, name in pod.claim_names().items() if entry in by_template}
    return claim.key.name in made and not is_made_for(claim, pod)


def is_made_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether a claim was made from a template for this very pod."""
    return any(
        owner.controller and owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references
    )
