"""Removes the gates of a gang, or gives back what was written for it."""

from collections.abc import Awaitable

from reconciler.api.objects.core import Pod
from reconciler.api.objects.gang_patches import record, release, release_on, take_back
from reconciler.api.objects.gangs import GangKey
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.seats import SeatMark
from reconciler.cluster.podwriter import PodWriter
from reconciler.cluster.writer import Writer
from reconciler.control.decisions.allocating import Freed, Ungated
from reconciler.control.decisions.decision import Report
from reconciler.control.decisions.gangs import GangGivenBack
from reconciler.control.gangs.planner import Place, Seats, UngateAll
from reconciler.control.intake import Intake
from reconciler.errors import Conflict, Gone, Rejected, Undecided


class GangWriter:
    """Writes to the claims and pods of gangs. Each request names the version that it was decided from."""

    def __init__(self, intake: Intake, claims: Writer, pods: PodWriter, report: Report) -> None:
        self._intake = intake
        self._claims = claims
        self._pods = pods
        self._report = report
        self._unanswered: dict[ObjectKey, GangKey] = {}
        """Pods whose patch has no answer: it may still arrive"""

    def is_unanswered(self, pod: ObjectKey) -> bool:
        """Whether a patch of a pod may still arrive."""
        return pod in self._unanswered

    async def ungate(self, step: UngateAll) -> None:
        """Remove the gate of every pod with a seat; pin those that their allocations do not pin, or all.

        Interrupted: the next turn goes on with the others.
        """
        for place in step.places:
            try:
                await self._patch(step.gang, place.pod, self._release(place, pin=step.pinning))
            except Gone:  # the others run without it; a pod that replaces it is decided alone
                continue
            self._report(Ungated(place.pod.key))

    async def record(self, mark: SeatMark, pod: Pod) -> None:
        """Record the node of a gated pod."""
        await self._patch(mark.gang, pod, self._pods.merge(pod, record(mark)))

    async def give_back(self, seats: Seats, why: str) -> None:
        """Withdraw all claims, and the recorded nodes of pods. Interrupted: the next turn goes on."""
        for pod in seats.pods:
            try:
                await self._patch(seats.gang, pod, self._pods.merge(pod, take_back()))
            except Gone:
                continue
        for claim in seats.claims:
            try:
                self._intake.observe(await self._claims.withdraw(claim))
            except Gone:
                continue
            self._report(Freed(claim.key, "its gang gives it back"))
        self._report(GangGivenBack(seats.gang, tuple(claim.key for claim in seats.claims), why))

    async def resolve(self, gang: GangKey) -> None:
        """Find out whether unanswered patches of a gang's pods were applied, and let none arrive later."""
        for key in [pod for pod, of in self._unanswered.items() if of == gang]:
            found = await self._pods.read(key)
            if found is not None and found.gated:
                # Another version of the pod: a patch that still arrives gets a conflict.
                found = await self._pods.merge(found, record(SeatMark(gang, 0, "")))
                found = await self._pods.merge(found, take_back())
            if found is not None:
                self._intake.observe_pod(found)
            self._intake.forget_pod(key)
            del self._unanswered[key]

    def _release(self, place: Place, *, pin: bool) -> Awaitable[Pod]:
        """Remove a gate; pin the pod if its allocations do not, or if told."""
        if place.pinned and not pin:
            return self._pods.merge(place.pod, release(place.pod))
        return self._pods.patch(place.pod, release_on(place.pod, place.node))

    async def _patch(self, gang: GangKey, pod: Pod, patch: Awaitable[Pod]) -> None:
        """Raises Conflict also if a patch does not apply because the pod has changed."""
        try:
            self._intake.observe_pod(await patch)
        except Undecided:
            self._unanswered[pod.key] = gang
            raise
        except (Conflict, Rejected) as exc:
            found = await self._pods.read(pod.key)
            if found is None:
                raise Gone(f"pod {pod.key} does not exist") from exc
            self._intake.observe_pod(found)
            if isinstance(exc, Rejected) and _version(found) != _version(pod):
                raise Conflict(str(exc)) from exc
            raise


def _version(pod: Pod) -> tuple[str, str]:
    return pod.metadata.uid, pod.metadata.resource_version
