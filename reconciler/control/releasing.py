"""Whether the gate of a pod with devices may be removed now. Source: FIT-12.

After its gate, kube-scheduler decides, and clears the allocation of a pod that fits on no node (SCHED-8).
Pods and nodes may have changed since the decision, and kube-scheduler may see pods in another order.
"""

from collections.abc import Iterable

from reconciler.allocation.placement.other_pods import Release
from reconciler.allocation.placement.placing import Placement
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod, claims_of
from reconciler.api.objects.meta import ObjectKey
from reconciler.control.audit import written_by_us
from reconciler.control.planner import Blocked, Free, Ungate
from reconciler.control.units import Roster
from reconciler.errors import Rejected, Unlisted
from reconciler.state.on_demand import NOT_LISTED
from reconciler.state.store import Store

NOT_BOUND, UNUSABLE = "PodsNotBound", "NodeUnsuitable"
"""The reasons if other pods must be bound first, and if the node of the devices does not suit the pod now."""


class Releasing:
    """Reads the state. Changes nothing."""

    def __init__(self, store: Store, roster: Roster, placement: Placement) -> None:
        self._store = store
        self._roster = roster
        self._placement = placement

    def next(self, pod: Pod) -> Ungate | Free | Blocked:
        """What a gated pod needs whose claims are all allocated."""
        keys = claims_of(pod)
        held = [self._store.claims[key] for key in keys]
        # kube-scheduler clears no claim that others have reserved.
        ours = [claim for claim in held if written_by_us(claim) and not claim.status.reserved_for]
        if not ours:
            return Ungate(pod)
        try:
            found = self._placement.release(pod, held, self._store.snapshot())
        except Rejected as exc:
            waits = isinstance(exc, Unlisted) and exc.reason == NOT_LISTED
            return Blocked(keys, NOT_LISTED, str(exc)) if waits else Ungate(pod)
        if found is Release.AWAITS_BINDING:
            why = "its devices are allocated; pods that its affinity or spread counts have to be bound first"
            return Blocked(keys, NOT_BOUND, why)
        alone = all(self._roster.users(claim.key) == {pod.key} for claim in ours)
        if found is Release.READY or (found is Release.NOWHERE and not alone):
            return Ungate(pod)
        if (free := self._unused(ours)) is not None:
            return Free(free, "its node does not suit its pods any more")
        why = "the node of its devices does not suit it now; another pod that shares them is being scheduled"
        return Blocked(keys, UNUSABLE, why)

    def awaits_binding(self, pod: Pod) -> bool:
        """Whether other pods must be bound before the gate of a pod is removed."""
        held = (self._store.claims.get(key) for key in claims_of(pod))
        try:
            found = self._placement.release(pod, [c for c in held if c is not None], self._store.snapshot())
        except Rejected:
            return False
        return found is Release.AWAITS_BINDING

    def _unused(self, claims: Iterable[ResourceClaim]) -> ResourceClaim | None:
        """A claim that only gated pods name."""
        return next((claim for claim in claims if self._gated_only(self._roster.users(claim.key))), None)

    def _gated_only(self, pods: Iterable[ObjectKey]) -> bool:
        return all(pod.gated for key in pods if (pod := self._store.pods.get(key)) is not None)
