"""Room that is held for Workloads from the answer of the check until their pods are bound."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from reconciler.api.objects.core import Pod
from reconciler.api.objects.kueue import Workload
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.validation.timestamps import timestamp
from reconciler.control.intake import Intake
from reconciler.control.kueue.asked import pods_of
from reconciler.state.nominations.nomination import (
    HeldPlace,
    Nomination,
    NomineeKind,
    of_workload,
)


class WorkloadHolds:
    """Holds room, and ends holds that are used or not wanted. Those that nobody uses expire by themselves."""

    def __init__(
        self, intake: Intake, *, seconds: float, clock: Callable[[], float], now: Callable[[], datetime]
    ) -> None:
        """`seconds`: how long room is held; `clock` is that of the loop; `now` the time of day."""
        self._intake, self._seconds, self._clock, self._now = intake, seconds, clock, now
        self._earlier: dict[tuple[ObjectKey, str], frozenset[str]] = {}
        """Workload and deadline of a hold -> uids of pods that were bound before it began.

        Not of holds that another process began.
        """
        self._used: dict[ObjectKey, tuple[str, datetime | None]] = {}
        """Workload -> its admission whose pods came and use the room. See `_admission`"""

    def hold(self, workload: Workload, places: tuple[HeldPlace, ...]) -> str:
        """Hold these places for all its pods. Returns until when, for people."""
        until = timestamp(self._now() + timedelta(seconds=self._seconds))
        self._earlier[workload.key, until] = frozenset(pod.metadata.uid for pod in self._bound(workload.key))
        self._used.pop(workload.key, None)
        self._intake.nominating.hold(
            Nomination(
                of_workload(workload.key),
                places,
                workload.spec.priority or 0,
                self._clock() + self._seconds,
                until,
                workload.metadata.uid,
            ),
            "Kueue may admit it",
        )
        return until

    def used(self, workload: Workload) -> bool:
        """Whether its room is not held any more because its pods of this admission are bound."""
        return self._used.get(workload.key) == _admission(workload)

    def drop(self, key: ObjectKey, why: str) -> None:
        """Hold nothing for a Workload any more."""
        self._intake.nominating.drop(of_workload(key), why)

    def end(self, workloads: Mapping[ObjectKey, Workload]) -> None:
        """End the holds of Workloads that are gone, lost their quota, or have all their pods bound."""
        held = [one for one in self._intake.store.nominations if one.nominee.kind is NomineeKind.WORKLOAD]
        known = {(one.nominee.key, one.deadline) for one in held}
        self._earlier = {one: uids for one, uids in self._earlier.items() if one in known}
        self._used = {key: one for key, one in self._used.items() if key in workloads}
        for one in held:
            key = one.nominee.key
            workload = workloads.get(key)
            if workload is None or workload.metadata.uid != one.uid:
                self.drop(key, "it is gone")
            elif workload.condition("QuotaReserved") is None or workload.condition("Finished") is not None:
                self.drop(key, "it has no quota any more")
            elif self._came(workload, one.deadline) >= pods_of(workload):
                self._used[key] = _admission(workload)
                self.drop(key, "its pods are bound")

    def _came(self, workload: Workload, deadline: str) -> int:
        """How many pods are bound of those for which the room is held, not of an earlier admission.

        Of a hold that another process began, it is not known which pods were bound before: then those count
        that were created after the quota was reserved.
        """
        bound, earlier = self._bound(workload.key), self._earlier.get((workload.key, deadline))
        if earlier is not None:
            return sum(pod.metadata.uid not in earlier for pod in bound)
        since = workload.quota_since
        created = (pod.metadata.created for pod in bound)
        return sum(since is not None and one is not None and one >= since for one in created)

    def _bound(self, workload: ObjectKey) -> list[Pod]:
        """Its pods that are bound and use their room: a pod that ended may be replaced."""
        known = self._intake.store.pods
        pods = (known[key] for key in self._intake.workloads.pods(workload))
        return [
            pod
            for pod in pods
            if pod.spec.node_name and not pod.finished and not pod.metadata.deletion_timestamp
        ]


def _admission(workload: Workload) -> tuple[str, datetime | None]:
    """Its uid, and when its quota was reserved: another time when it is admitted again."""
    return workload.metadata.uid, workload.quota_since
