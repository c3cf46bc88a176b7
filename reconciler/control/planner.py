"""Determines from the present state what a unit needs next. Decides nothing about devices."""

from collections.abc import Callable, Container, Sequence
from dataclasses import replace

from msgspec import Struct, structs

from kernels.types import Amounts
from reconciler.allocation.alignment.preferences import preferences_of
from reconciler.allocation.placement.placing import Placement, refusal_reason
from reconciler.allocation.placement.together import Together
from reconciler.allocation.policies.selection import PLAIN, Policies
from reconciler.api.migrate.special_claims import REMEDY, UNSAFE, unserved, with_special_claim
from reconciler.api.objects.claims import FINALIZER, ResourceClaim, is_ours
from reconciler.api.objects.core import Pod, claims_of, is_live
from reconciler.api.objects.gangs import gang_of, unmade_claims
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted
from reconciler.control.handler import Blocked, Decide, Free, Idle, Step, Ungate
from reconciler.control.ownership import Ownership, is_made_for_another, lost_device
from reconciler.control.special_claims import still_suits, wanted_claim
from reconciler.control.units import Kind, Roster, Unit
from reconciler.errors import Rejected
from reconciler.ha.shard import OURS, Membership, Side
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.nominations import NOBODY, of_claim, of_special, own_of_all
from reconciler.state.store import Store

NOT_OURS = "NotOurs"
"""The reason if devices may be free, but belong to another allocator."""

LEFT = "LeftToScheduler"
"""The reason if kube-scheduler removed an allocation."""

SEVERAL = "NeedsSeveralShards"
"""The reason if no single shard has all requested devices, as far as classes and selectors show."""


NOT_FOUND, NOT_MADE, DELETING = "ClaimNotFound", "ClaimNotMade", "ClaimDeleting"
"""The reasons if a claim does not exist, is not created from its template yet, or is being deleted."""


class _Needs(Struct, frozen=True):
    """A pod needs devices."""

    todo: tuple[ResourceClaim, ...]
    held: tuple[ResourceClaim, ...]
    """Its claims that are allocated already"""


def _left(keys: tuple[ObjectKey, ...]) -> Blocked:
    return Blocked(keys, LEFT, "kube-scheduler removed our allocation and allocates the claim itself")


def _is_alike(one: Decide, other: Decide) -> bool:
    """Whether two questions are about one claim each, with equal specs, preferences and nodes."""
    (claim, *more), of = one.claims, other.claims[0]
    return (
        not more
        and one.nodes == other.nodes
        and (claim.spec is of.spec or claim.spec == of.spec)
        and preferences_of(claim) == preferences_of(of)
    )


class Planner(Struct, eq=False):
    """Reads the state. Changes nothing."""

    _store: Store
    _roster: Roster
    _placement: Placement
    _ours: Ownership
    _reclaimed: Container[ResourceClaim]
    """Claims that kube-scheduler decides, as `ReclaimedByScheduler` knows them"""
    _policies: Callable[[], Policies] = lambda: PLAIN
    """Those in use: their demand changes as it is learnt"""

    @property
    def policies(self) -> Policies:
        """Those in use."""
        return self._policies()

    def next(self, unit: Unit) -> Step:
        """What the unit needs."""
        if unit.kind is Kind.POD:
            pod = self._store.pods.get(unit.key)
            return self._pod(pod) if pod is not None and is_live(pod) else Idle()
        claim = self._store.claims.get(unit.key)
        return self._claim(claim) if claim is not None else Idle()

    def _claim(self, claim: ResourceClaim) -> Step:
        """What a claim without pods needs."""
        where = self.side(claim)
        if where.side is Side.ELSEWHERE:
            return Idle()
        if claim.deleting:  # also if its shard is unknown: it holds nothing, so any shard may free it
            return self._deleted(claim)
        if claim.status.allocation is not None:
            return self._held(claim)
        if not self._ours.claims(claim) or self.pending(claim):
            return Idle()
        if self._roster.users(claim.key):  # decided with its pods, which have node constraints
            return Idle()
        if where.side is Side.SEVERAL:
            return Blocked((claim.key,), SEVERAL, f"claim {claim.key}: {where.why}")
        problem = self._refused(claim.key) or self.allowed((claim,))
        if problem is not None:
            return problem
        nodes = self._placement.for_claim(self._store.snapshot()).nodes
        own = frozenset([of_claim(claim.key)]) if self._store.nominations else NOBODY
        return Decide((claim,), nodes, policies=self._policies(), own=own)

    def _held(self, claim: ResourceClaim) -> Step:
        """Free an allocation of ours that lost a race, or that nobody else would free (RCC-3)."""
        if claim.status.reserved_for or not is_ours(claim):
            return Idle()
        if (found := lost_device(claim, self._store)) is not None:
            return Free(claim, str(found), found.winner)
        if self._ours.claims(claim) or self._roster.users(claim.key):
            return Idle()
        return Free(claim, "the pods that it was allocated for are gone")

    def _deleted(self, claim: ResourceClaim) -> Step:
        idle = (
            FINALIZER not in claim.metadata.finalizers
            or claim.status.reserved_for
            or self.pending(claim)
            or not self._ours.frees(claim)
        )
        return Idle() if idle else Free(claim, "deleted and not in use")

    def like(self, first: Decide, unit: Unit) -> Decide | None:
        """What a unit asks for, if that is the same as `first` asks for its only claim. None if not, or if
        that takes a closer look, as for claims that pods share. Nothing may be nominated.
        """
        pod = self._store.pods.get(unit.key) if unit.kind is Kind.POD else None
        if first.pod is None:
            claim = self._store.claims.get(unit.key) if unit.kind is Kind.CLAIM else None
            found = self._claim(claim) if claim is not None else None
            return found if isinstance(found, Decide) and _is_alike(found, first) else None
        if pod is None or not is_live(pod) or not self._placement.likeness(first.pod).is_copy(pod):
            return None
        needs = self._needs(pod)
        if not isinstance(needs, _Needs) or needs.held:
            return None
        if any(len(self._roster.users(claim.key)) > 1 for claim in needs.todo):
            return None
        found = replace(first, claims=needs.todo, pod=pod)
        return found if _is_alike(found, first) else None

    def _pod(self, pod: Pod) -> Step:
        found = self._needs(pod)
        if pod.gated and isinstance(found, _Needs | Ungate):
            special = wanted_claim(pod, self._store)
            if special is not None:
                return self._with_special_claim(pod, special, found)
        return self._placed(pod, found.todo, found.held) if isinstance(found, _Needs) else found

    def _with_special_claim(self, pod: Pod, special: ResourceClaim, found: "_Needs | Ungate") -> Step:
        """The same for a pod for whose extended resources kube-scheduler makes a claim."""
        where = self.side(special)
        if where.side is Side.ELSEWHERE:
            return Idle()
        problem = self.allowed((special,))
        if where.side is Side.SEVERAL or problem is not None:
            why = where.why if problem is None else problem.message
            return Blocked(claims_of(pod), UNSAFE, f"{why}; {REMEDY}")
        todo, held = (found.todo, found.held) if isinstance(found, _Needs) else ((), self._held_by(pod))
        step = self._placed(with_special_claim(pod, special.key.name), (*todo, special), tuple(held))
        known = self._store.nominations.get(of_special(pod.key))
        if todo or not isinstance(step, Decide) or known is None or known.uid != pod.metadata.uid:
            return step
        (place,) = known.places
        suits = step.nodes is None or place.node in step.nodes
        return Ungate(pod, place) if suits and still_suits(place, special, self._store.snapshot()) else step

    def _needs(self, pod: Pod) -> "Step | _Needs":
        """What a pod needs, before it is known which nodes it may use."""
        keys, gated = claims_of(pod), pod.gated
        if not gated and not any(self._is_managed(key, allocated=False) for key in keys):
            return Idle()
        apart = None
        if not self._ours.shard.whole:
            apart = self.apart([key for key in keys if gated or self._is_managed(key, allocated=True)])
        if isinstance(apart, Idle):
            return apart
        if (defect := self.defect(pod)) is not None:
            return defect
        if apart is not None:
            return Blocked(keys, apart.reason, apart.message)
        known, assumed, left = self._store.claims, self._store.assumed, False
        todo, held = [], []
        for key in keys:
            claim = known[key]
            if assumed(claim.metadata.uid) is not None:
                return Idle()  # its writer requeues this unit afterwards
            left = left or claim in self._reclaimed
            if claim.status.allocation is not None:
                held.append(claim)
            elif gated or self._ours.claims(claim):
                todo.append(claim)
        if left:
            return _left(keys)
        if not todo:
            return Ungate(pod) if gated else Idle()
        found = _Needs(tuple(todo), tuple(held))
        return self.allowed(found.todo) or found

    def defect(self, pod: Pod) -> Blocked | None:
        """Why the claims of a pod cannot be used, regardless of devices; None if they can."""
        keys = claims_of(pod)
        if pod.gated and (none := unserved(pod, self._store.supply.classes, self._store.rules)) is not None:
            return Blocked(keys, none.reason, none.message)
        if len(keys) - bool(pod.special_claim) < len(pod.spec.resource_claims):  # else each has its own
            names = pod.claim_names()
            if None in names.values():
                missing = min(name for name, claim in names.items() if claim is None)
                why = f"no claim was created yet from the template of {missing}"
                if gang_of(pod) is not None and (off := unmade_claims(self._store.rules)):
                    why += f"; if it is a claim of its PodGroup, {off}"
                return Blocked(keys, NOT_MADE, why)
        for key in keys:
            if (problem := self.problem(key, pod)) is not None:
                return Blocked(keys, problem.reason, problem.message)
        return None

    def left(self, pod: Pod) -> Blocked | None:
        """Whether a claim of a pod is left to kube-scheduler. All its claims must exist."""
        keys = claims_of(pod)
        return _left(keys) if any(self._store.claims[key] in self._reclaimed for key in keys) else None

    def apart(self, keys: Sequence[ObjectKey]) -> Blocked | Idle | None:
        """How sharding affects claims that are decided together: none is ours, or only some are.

        None: all are ours.
        """
        if self._ours.shard.whole or not keys:
            return None
        there = [claim for key in keys if (claim := self._store.claims.get(key)) is not None]
        sides = [self.side(claim) for claim in there]
        if all(where.side is Side.ELSEWHERE for where in sides):
            return Idle()  # also if no claim exists yet: its creation requeues the unit
        for claim, where in zip(there, sides, strict=True):
            if where.side is Side.SEVERAL:
                return Blocked(tuple(keys), SEVERAL, f"claim {claim.key}: {where.why}")
            if where.side is Side.ELSEWHERE:
                why = f"claim {claim.key} belongs to another shard than others that are decided with it"
                return Blocked(tuple(keys), SEVERAL, why)
        return None

    def _placed(self, pod: Pod, todo: tuple[ResourceClaim, ...], held: tuple[ResourceClaim, ...]) -> Step:
        try:
            found = self._placement.for_pod(pod, held, self._store.snapshot())
            together = self._together(pod, todo, held) if pod.gated else None
        except Rejected as exc:
            return Blocked(tuple(claim.key for claim in todo), refusal_reason(exc), str(exc))
        policies, nodes, crowded, awaits = self._policies(), found.nodes, found.crowded, found.awaits_pods
        if together is not None:
            nodes = self._placement.reduced(nodes, together, self._store.snapshot())
            crowded = awaits = True
        room = self._placement.room(pod, self._store.snapshot(), policies)
        own, expected = NOBODY, None
        if self._store.nominations:
            pods = [pod.key] if together is None else together.pods
            own = own_of_all(self._store.pods[key] for key in pods)
            expected = self._store.nominations.expected(own)
        charging = self._placement.charging(pod, held, self._store.snapshot())
        if charging is not None:
            shared = frozenset(at for _, _, claims in self.sharing(pod, todo) for at in claims)
            charging, crowded = structs.replace(charging, shared=shared), True
        return Decide(
            todo, nodes, held, pod, crowded, awaits, together, policies, room, own, expected, charging
        )

    def _together(
        self, pod: Pod, todo: tuple[ResourceClaim, ...], held: tuple[ResourceClaim, ...]
    ) -> Together | None:
        """The gated pods that share the claims, judged together. None if there are no others."""
        others = self.sharing(pod, todo)
        if not others:
            return None
        own = pod, held, tuple(range(len(todo)))
        return self._placement.together([own, *others], self._store.snapshot())

    def sharing(
        self, pod: Pod, todo: tuple[ResourceClaim, ...]
    ) -> list[tuple[Pod, tuple[ResourceClaim, ...], tuple[int, ...]]]:
        """The other gated pods that use some of the claims: each with its allocated claims, and the positions
        of those in `todo`.
        """
        sharing: dict[ObjectKey, list[int]] = {}
        for at, claim in enumerate(todo):
            for key in self._roster.users(claim.key):
                sharing.setdefault(key, []).append(at)
        return [
            (other, tuple(self._held_by(other)), tuple(claims))
            for key, claims in sorted(sharing.items())
            if key != pod.key and (other := self._store.pods.get(key)) is not None and other.gated
        ]

    def _held_by(self, pod: Pod) -> list[ResourceClaim]:
        """The allocated claims of a pod."""
        found = (self._store.claims.get(key) for key in claims_of(pod))
        return [claim for claim in found if claim is not None and claim.allocation is not None]

    def room_for_copies(self, pod: Pod) -> Amounts | None:
        """How many more copies of a pod each node takes; see `Placement.copies`."""
        return self._placement.copies(pod, self._store.snapshot())

    def still_serves(self, question: Decide, granted: Granted) -> bool:
        """Whether an answer from an earlier state has nodes for all pods of the question as it is now."""
        if question.nodes is not None and granted.node not in question.nodes:
            return False
        if question.together is None:
            return True
        snapshot = self._store.snapshot()
        return question.together.fit([self._placement.reach(plan, snapshot) for plan in granted.plans])

    def left_out(self, question: Decide) -> str:
        """Why nodes were excluded, for people; empty if none was, or a claim without a pod has some."""
        snapshot = self._store.snapshot()
        if question.pod is None:
            return self._placement.barred(snapshot)
        text = self._placement.left_out(question.pod, question.held, snapshot)
        if isinstance(question.together, Together):
            more = self._left_out_together(question.together, question, snapshot)
            text = "; ".join(filter(None, [text, more]))
        return text

    def _left_out_together(self, together: Together, question: Decide, snapshot: Snapshot) -> str:
        """What the other pods that share the claims exclude."""
        for key in together.pods if together.nowhere else ():
            other = self._store.pods[key]
            text = self._placement.left_out(other, self._held_by(other), snapshot)
            if text.startswith("0 of") and other is not question.pod:
                return f"pod {key}, which shares a claim, fits on no node: {text}"
        alone, pods = sum(together.on_one_node().tolist()), len(together.pods)
        return f"{alone} of {len(snapshot.topology.order)} nodes suit all {pods} pods that share the claims"

    def side(self, claim: ResourceClaim) -> Membership:
        """The shard of a claim."""
        if self._ours.shard.whole:
            return OURS
        return self._ours.side(claim, lambda: self._store.snapshot().classes)

    def _is_managed(self, key: ObjectKey, *, allocated: bool) -> bool:
        """Whether a claim is ours by itself; unless `allocated`, only without devices."""
        claim = self._store.claims.get(key)
        return claim is not None and self._ours.claims(claim) and (allocated or claim.allocation is None)

    def pending(self, claim: ResourceClaim) -> bool:
        """Whether the plan of a claim is being written."""
        return self._store.assumed(claim.metadata.uid) is not None

    def problem(self, key: ObjectKey, pod: Pod | None) -> Blocked | None:
        """Why a claim cannot be used by a pod, or on its own, regardless of devices (SCHED-1)."""
        if (refused := self._refused(key)) is not None:
            return refused
        claim = self._store.claims.get(key)
        if claim is None:
            return Blocked((key,), NOT_FOUND, f"claim {key} does not exist")
        if claim.deleting:
            return Blocked((key,), DELETING, f"claim {key} is being deleted")
        if pod is not None and is_made_for_another(claim, pod):
            return Blocked(
                (key,), "ClaimOfOtherPod", f"claim {key} was created from a template for another pod"
            )
        return None

    def _refused(self, key: ObjectKey) -> Blocked | None:
        """Whether the newest version of a claim cannot be parsed."""
        if not self._store.refused:
            return None
        refused = self._store.refused.get(("ResourceClaim", key))
        return None if refused is None else Blocked((key,), "ClaimRefused", refused)

    def owns(self, claim: ResourceClaim) -> bool:
        """Whether all devices that a claim holds are ours: another controller may own other drivers."""
        return self._ours.trespass(claim, claim.allocation) is None

    def allowed(self, claims: tuple[ResourceClaim, ...]) -> Blocked | None:
        """Why claims may not be allocated, judging by their classes; None if they may."""
        if self._ours.alone:
            return None
        for claim in claims:
            if (foreign := self._ours.foreign_class(claim)) is not None:
                keys = tuple(claim.key for claim in claims)
                return Blocked(keys, NOT_OURS, f"claim {claim.key}: {foreign}")
        return None
