"""What Koordinator's plugin brings to the program."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ApiObject
from reconciler.api.validation.kinds import ServedKind
from reconciler.errors import Rejected
from reconciler.plugins.koordinator import vocabulary as koord
from reconciler.plugins.koordinator.reasons import KOORDINATOR
from reconciler.plugins.plugin import Plugin, Shown, Usage

if TYPE_CHECKING:
    from reconciler.allocation.pod_devices import PodDevices
    from reconciler.analysis.doctor.checks import Checks
    from reconciler.app.control import Start
    from reconciler.cluster.client import Client
    from reconciler.cluster.kinds import Served
    from reconciler.control.intake import Intake
    from reconciler.operations.journal.replaying import ReplayPart
    from reconciler.settings import Settings

# ruff: noqa: PLC0415 - most commands need none of what is imported below


class Koordinator(Plugin):
    """Devices of machines, for pods that request them by resources and annotations."""

    name: ClassVar = koord.PLUGIN
    title: ClassVar = "Koordinator's devices"
    models: ClassVar = {f"{koord.GROUP}/{koord.VERSION}": koord.Device}
    advice: ClassVar = KOORDINATOR

    def served_kinds(self) -> Sequence[ServedKind]:
        return (koord.DEVICE,)

    def requests(self, pod: Pod) -> bool:
        if not self.holds(pod) and _resources(pod).isdisjoint(koord.TYPE_OF):
            return False
        from reconciler.plugins.koordinator.demand import read_demand

        return read_demand(pod, koord.Rules()) is not None

    def own_resource(self, pod: Pod) -> str:
        # Vendors' names, such as nvidia.com/gpu, are resources of nodes where Koordinator does not run.
        return min(_resources(pod) & set(koord.CURRENT_NAME.values()), default="")

    def holds(self, pod: Pod) -> bool:
        return koord.ALLOCATED in pod.metadata.annotations

    def record(self, pod: Pod) -> str:
        return pod.metadata.annotations[koord.ALLOCATED]

    def offline(
        self, objects: Iterable[ApiObject], pods: Iterable[Pod], options: Mapping[str, str]
    ) -> "PodDevices | None":
        listed, known = list(objects), list(pods)
        if not any(isinstance(one, koord.Device) for one in listed) and not any(map(self.requests, known)):
            return None
        from reconciler.plugins.koordinator.offline import OfflineMachines

        rules = koord.Rules(koord.Semantics(options.get("koordinator_semantics", "proposal")))
        return OfflineMachines(listed, known, rules)

    def checks(self) -> "Checks":
        from reconciler.plugins.koordinator.doctor import CHECKS

        return CHECKS

    def usage(self) -> Usage:
        from reconciler.plugins.koordinator.figures import MachineUsage

        return MachineUsage()

    def modes(self, objects: Iterable[ApiObject]) -> Shown | None:
        known = list(objects)
        if not any(isinstance(one, koord.Device) for one in known):
            return None
        from reconciler.plugins.koordinator.figures import modes

        return modes(known)

    async def with_kinds(self, client: "Client", served: "Served") -> "Served":
        from reconciler.plugins.koordinator.handler import with_devices

        return await with_devices(client, served)

    def check(self, settings: "Settings") -> None:
        if settings.koordinator and settings.shard:
            raise Rejected(
                "--koordinator cannot be combined with --shard: Koordinator's devices have no drivers and "
                "pools, and a shard without --koordinator would remove the gate of pods that wait for such "
                "devices. Serve the whole fleet with one process, or drop --koordinator"
            )

    async def discover(self, client: "Client", settings: "Settings") -> "Served | None":
        if not settings.koordinator:
            return None
        from reconciler.plugins.koordinator.handler import kinds_beside_devices, with_devices

        return await with_devices(client, await kinds_beside_devices(client, settings))

    async def prepare(self, client: "Client", settings: "Settings", served: "Served") -> "Start | None":  # noqa: ARG002
        if not settings.koordinator:
            return None
        from reconciler.plugins.koordinator.handler import KoordinatorRunning

        return KoordinatorRunning

    def replay(self, settings: Mapping[str, Any], intake: "Intake") -> "ReplayPart | None":
        if not settings.get("koordinator"):
            return None
        from reconciler.plugins.koordinator.handler import Replay

        return Replay(settings["koordinator_semantics"], intake)


def _resources(pod: Pod) -> set[str]:
    """The resources that a pod requests, by their current names."""
    containers = pod.spec.all_containers
    parts = (part for one in containers for part in (one.resources.requests, one.resources.limits))
    return {koord.CURRENT_NAME.get(name, name) for part in (*parts, pod.spec.overhead) for name in part}
