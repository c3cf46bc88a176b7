"""Claims whose allocation kube-scheduler removed. Without the scheduling gate, kube-scheduler decides.

It clears the allocation of a pod that fits on no node (SCHED-8), and allocates the claim itself later. To
allocate the claim again would be to compete, so the claim is left alone until it is allocated or its pods
are gone.
"""

from collections.abc import Container

from reconciler.allocation.placement import Placement
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import gang_of
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.control.audit.losing_claim import written_by_us
from reconciler.control.decisions.allocating import Reclaimed
from reconciler.control.decisions.decision import Report
from reconciler.control.queueing.units import Roster
from reconciler.errors import Rejected
from reconciler.state.nodes.charging import pinned_to
from reconciler.state.store import Store


class ReclaimedByScheduler:
    """The claims that kube-scheduler decides."""

    def __init__(
        self, store: Store, roster: Roster, placement: Placement, report: Report, withdrawing: Container[str]
    ) -> None:
        """`withdrawing` has the uids of claims whose allocation this process is withdrawing."""
        self._store = store
        self._roster = roster
        self._placement = placement
        self._report = report
        self._uids: dict[ObjectKey, str] = {}
        self._withdrawing = withdrawing

    def __contains__(self, claim: ResourceClaim) -> bool:
        if self._uids.get(claim.key) != claim.metadata.uid:
            return False
        if claim.allocation is not None or self._pod(claim.key) is None:
            del self._uids[claim.key]
            return False
        return True

    def note(self, thing: ApiObject) -> None:
        """Compare a new version of a claim with the store, before it is applied."""
        if not isinstance(thing, ResourceClaim) or thing.allocation is not None or thing.deleting:
            return
        before = self._store.claims.get(thing.key)
        if before is None or before.metadata.uid != thing.metadata.uid or not written_by_us(before):
            return
        pod = self._pod(thing.key)
        if pod is None or pod.spec.node_name or thing.metadata.uid in self._withdrawing:
            return  # the resourceclaim controller frees a bound pod's claim; the pod's end may be told later
        self._uids[thing.key] = thing.metadata.uid
        if any(one.uid == pod.metadata.uid for one in before.status.reserved_for):
            return  # most likely the pod was bound and has ended, and both are told later: no reason to warn
        held = before.allocation
        node = pinned_to(held.node_selector) if held is not None else ""
        devices = tuple(result.id for result in held.devices.results) if held is not None else ()
        self._report(
            Reclaimed(thing.key, pod.key, node, devices, self._reasons_against(pod, node), gang_of(pod))
        )

    def _pod(self, claim: ObjectKey) -> Pod | None:
        """A pod without the gate that names the claim, if possible one that is not bound."""
        found = [self._store.pods[key] for key in sorted(self._roster.users(claim))]
        return min(
            (pod for pod in found if not pod.gated), key=lambda pod: bool(pod.spec.node_name), default=None
        )

    def _reasons_against(self, pod: Pod, node: str) -> str:
        if not node:
            return "its devices did not bind it to a single node"
        try:
            reasons = self._placement.against(pod, node, self._store.snapshot())
        except Rejected as exc:
            reasons = [str(exc)]
        return f"node {node}: {'; '.join(reasons) or 'no known reason against it'}"
