"""Takes in changes of machines and pods, and queues the pods that may get devices now."""

from reconciler.api.objects.changes import Listed, Notice
from reconciler.api.objects.core import Pod
from reconciler.control.intake import Intake
from reconciler.control.koordinator.state import Grant, KoordinatorState


class DeviceIntake:
    """The only place that changes machines and their holders. Nothing here awaits."""

    def __init__(self, state: KoordinatorState, intake: Intake) -> None:
        self._state = state
        self._intake = intake
        self._room = 0

    def take(self, change: Notice) -> None:
        """The sink of every watch: applies a change to both states."""
        if not isinstance(change, Listed):
            self._state.apply(change)
        self._intake.take(change)
        self._wake()

    def observe(self, pod: Pod) -> None:
        """Take in a pod that a request returned."""
        self._state.observe(pod)
        self._wake()

    def assume(self, grant: Grant) -> None:
        """Count devices as held, and room as taken, before they are written."""
        self._state.assume(grant)
        self._intake.assume_pod(grant.pod.key, grant.held.node)

    def forget(self, grant: Grant) -> None:
        """Drop a grant that was not and will not be written."""
        self._state.forget(grant)
        if grant.pod.key not in self._state.fleet.pods:
            self._intake.forget_pod(grant.pod.key)
        self._wake()

    def _wake(self) -> None:
        """Wake the pods that may find new devices."""
        if self._room == self._state.room:
            return
        self._room = self._state.room
        self._intake.queue.wake(self._intake.waiting.served_by(self._state.fleet.may_serve))
