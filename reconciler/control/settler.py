"""What follows a decision: its plans are written and confirmed, or withdrawn; then the gate may be removed.

After its gate, kube-scheduler decides, and clears the allocation of a pod that fits on no node (SCHED-8).
Pods and nodes may have changed since the decision, and kube-scheduler may see pods in another order. Source:
FIT-12.
"""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from reconciler.allocation.placement.other_pods import Release
from reconciler.api.objects.claims import ResourceClaim, is_ours
from reconciler.api.objects.core import Pod, claims_of
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Plan
from reconciler.cluster.pod_writer import PodWriter
from reconciler.cluster.writer import Writer
from reconciler.control.decisions.allocating import Freed
from reconciler.control.decisions.declaration import Report
from reconciler.control.handler import Blocked, Free, Ungate
from reconciler.control.intake import Intake
from reconciler.control.special_claims import HANDED_OVER
from reconciler.errors import Conflict, Gone, Rejected, Retry, Undecided, Unlisted
from reconciler.state.nominations import HeldPlace, of_special
from reconciler.state.on_demand import NOT_LISTED


class Settler(Struct, eq=False):
    """Writes plans. A plan is assumed until the answer of the server to its write is known."""

    _intake: Intake
    _writer: Writer
    _report: Report
    _busy: set[str] = set()

    def assume(self, plan: Plan) -> None:
        """Count a plan as held. Its write begins soon, so nobody takes it for one without an answer."""
        self._busy.add(plan.uid)
        self._intake.assume(plan)

    async def settle(
        self, plans: Sequence[tuple[Plan, ResourceClaim]], on_written: Callable[[Plan], None]
    ) -> None:
        """Write assumed plans in order, until one fails. Calls `on_written` after each write.

        Conflict, Retry: the failed plan and the rest are free again; earlier ones stay written, and the
        next reconcile continues from there. Rejected, Gone: earlier ones are withdrawn too. Undecided
        or cancelled: the plan in flight stays assumed.
        """
        for plan, _ in plans:
            self._busy.add(plan.uid)
        written: list[ResourceClaim] = []
        try:
            for plan, claim in plans:
                written.append(await self._writer.write(plan, claim))
                self._confirm(plan, written[-1])
                on_written(plan)
        except Undecided:
            self._forget(plans[len(written) + 1 :])
            raise
        except Retry as exc:
            self._forget(plans[len(written) :])
            if isinstance(exc, Conflict):
                await self._refresh(plans[len(written)][1])
            raise
        except (Rejected, Gone):
            self._forget(plans[len(written) :])
            await self._withdraw(written)
            raise
        finally:
            for plan, _ in plans:
                self._busy.discard(plan.uid)

    async def resolve(self, claim: ResourceClaim) -> None:
        """Find out whether a write without an answer was applied, by reading the claim.

        Does nothing while another task writes the claim. Raises the errors of both requests; the plan
        then stays assumed.
        """
        uid = claim.metadata.uid
        plan = self._intake.store.assumed(uid)
        if plan is None or uid in self._busy:
            return
        self._busy.add(uid)
        try:
            found = await self._writer.read_claim(claim.key)
            if found is not None and found.metadata.uid == uid and found.allocation is None:
                # The write may still arrive, when its devices are given to others. Removing the finalizer
                # changes the resourceVersion of the claim, so the late write gets a conflict.
                found = await self._writer.withdraw(found)
        finally:
            self._busy.discard(uid)
        if found is not None:
            self._intake.observe(found)
        self._intake.resolved(plan)

    def _confirm(self, plan: Plan, written: ResourceClaim) -> None:
        self._intake.observe(written)
        # If it is still assumed, the watch already reported a later version without an allocation.
        self._intake.forget(plan)

    def _forget(self, plans: Sequence[tuple[Plan, ResourceClaim]]) -> None:
        for plan, _ in plans:
            self._intake.forget(plan)

    async def _refresh(self, claim: ResourceClaim) -> None:
        found = await self._writer.read_claim(claim.key)
        if found is not None:
            self._intake.observe(found)

    async def _withdraw(self, claims: Sequence[ResourceClaim]) -> None:
        for claim in claims:
            try:
                self._intake.observe(await self._writer.withdraw(claim))
            except (Conflict, Gone):
                continue  # reserved or changed in between: not ours to withdraw
            self._report(Freed(claim.key, "another claim of its pod cannot be written"))


async def patch_pod(pod: Pod, patch: Awaitable[Pod], intake: Intake, pods: PodWriter) -> None:
    """Take in what a patch of a pod made of it, or how the pod is if it did not apply.

    Raises Conflict also if a patch does not apply because the pod has changed, and Gone if there is none.
    """
    try:
        intake.observe_pod(await patch)
    except (Conflict, Rejected) as exc:
        found = await pods.read(pod.key)
        if found is None:
            raise Gone(f"pod {pod.key} does not exist") from exc
        intake.observe_pod(found)
        if isinstance(exc, Rejected) and _version(found) != _version(pod):
            raise Conflict(str(exc)) from exc
        raise


def _version(pod: Pod) -> tuple[str, str]:
    return pod.metadata.uid, pod.metadata.resource_version


class HandOver(Struct, eq=False):
    """Removes the gates of pods for which kube-scheduler is to make a claim (EXT-5)."""

    _intake: Intake
    _pods: PodWriter
    _unanswered: set[ObjectKey] = set()

    async def release(self, pod: Pod, place: HeldPlace) -> None:
        """Pin a pod and remove its gate. Raises as `patch_pod`."""
        steps = self._intake.special.release(pod, place)
        try:
            await patch_pod(pod, self._pods.patch(pod, steps), self._intake, self._pods)
        except Undecided:
            self._unanswered.add(pod.key)
            raise

    async def resolve(self, key: ObjectKey) -> None:
        """Find out whether a patch without an answer was applied, and let it not arrive later."""
        if key in self._unanswered:
            await self.fence_off(key)
            self._unanswered.discard(key)

    async def fence_off(self, key: ObjectKey) -> None:
        """Give a gated pod another version, so that a patch which still arrives gets a conflict, and hold
        nothing for it.
        """
        found = await self._pods.read(key)
        if found is not None and found.gated:
            value = None if HANDED_OVER in found.metadata.annotations else ""
            found = await self._pods.merge(found, {"metadata": {"annotations": {HANDED_OVER: value}}})
            self._intake.nominating.drop(of_special(key), "it is decided again")
        if found is not None:
            self._intake.observe_pod(found)


NOT_BOUND, UNUSABLE = "PodsNotBound", "NodeUnsuitable"
"""The reasons if other pods must be bound first, and if the node of the devices does not suit the pod now."""


def release_step(pod: Pod, intake: Intake) -> Ungate | Free | Blocked:
    """What a gated pod needs whose claims are all allocated."""
    store, users = intake.store, intake.roster.users
    keys = claims_of(pod)
    held = [store.claims[key] for key in keys]
    # kube-scheduler clears no claim that others have reserved.
    ours = [claim for claim in held if is_ours(claim) and not claim.status.reserved_for]
    if not ours:
        return Ungate(pod)
    try:
        found = intake.placement.release(pod, held, store.snapshot())
    except Rejected as exc:
        waits = isinstance(exc, Unlisted) and exc.reason == NOT_LISTED
        return Blocked(keys, NOT_LISTED, str(exc)) if waits else Ungate(pod)
    if found is Release.AWAITS_BINDING:
        why = "its devices are allocated; pods that its affinity or spread counts have to be bound first"
        return Blocked(keys, NOT_BOUND, why)
    alone = all(users(claim.key) == {pod.key} for claim in ours)
    if found is Release.READY or (found is Release.NOWHERE and not alone):
        return Ungate(pod)
    for claim in ours:
        if all(other.gated for key in users(claim.key) if (other := store.pods.get(key)) is not None):
            return Free(claim, "its node does not suit its pods any more")
    why = "the node of its devices does not suit it now; another pod that shares them is being scheduled"
    return Blocked(keys, UNUSABLE, why)


def awaits_binding(pod: Pod, intake: Intake) -> bool:
    """Whether other pods must be bound before the gate of a pod is removed."""
    held = (intake.store.claims.get(key) for key in claims_of(pod))
    try:
        found = intake.placement.release(pod, [c for c in held if c is not None], intake.store.snapshot())
    except Rejected:
        return False
    return found is Release.AWAITS_BINDING
