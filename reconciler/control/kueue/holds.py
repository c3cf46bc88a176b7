"""Room that is held for Workloads from the answer of the check until their pods are bound."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from reconciler.api.objects.kueue import WORKLOAD, Workload
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

    def hold(self, workload: Workload, places: tuple[HeldPlace, ...]) -> str:
        """Hold these places for all its pods. Returns until when, for people."""
        until = timestamp(self._now() + timedelta(seconds=self._seconds))
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

    def drop(self, key: ObjectKey, why: str) -> None:
        """Hold nothing for a Workload any more."""
        self._intake.nominating.drop(of_workload(key), why)

    def end(self, workloads: Mapping[ObjectKey, Workload]) -> None:
        """End the holds of Workloads that are gone, lost their quota, or have all their pods bound."""
        held = [one for one in self._intake.store.nominations if one.nominee.kind is NomineeKind.WORKLOAD]
        bound = self._bound() if held else {}
        for one in held:
            key = one.nominee.key
            workload = workloads.get(key)
            if workload is None or workload.metadata.uid != one.uid:
                self.drop(key, "it is gone")
            elif workload.condition("QuotaReserved") is None or workload.condition("Finished") is not None:
                self.drop(key, "it has no quota any more")
            elif bound.get(key, 0) >= pods_of(workload):
                self.drop(key, "its pods are bound")

    def _bound(self) -> dict[ObjectKey, int]:
        """Workload -> pods of it that are bound."""
        found: dict[ObjectKey, int] = {}
        for pod in self._intake.store.pods.values():
            name = pod.metadata.annotations.get(WORKLOAD)
            if name and pod.spec.node_name:
                key = ObjectKey(pod.key.namespace, name)
                found[key] = found.get(key, 0) + 1
        return found
