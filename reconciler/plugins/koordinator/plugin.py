"""What Koordinator's plugin brings to the program."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from reconciler.api.validation.kinds import ServedKind
from reconciler.errors import Rejected
from reconciler.plugins.koordinator.objects import GROUP, VERSION, Device
from reconciler.plugins.koordinator.reasons import KOORDINATOR
from reconciler.plugins.plugin import Plugin

if TYPE_CHECKING:
    from reconciler.analysis.doctor.checks import Checks
    from reconciler.app.running import Start
    from reconciler.cluster.client import Client
    from reconciler.cluster.kinds import Served
    from reconciler.operations.journal.replaying import ReplayPart
    from reconciler.settings import Settings

# ruff: noqa: PLC0415 - most commands need none of what is imported below


class Koordinator(Plugin):
    """Devices of machines, for pods that request them by resources and annotations."""

    name: ClassVar = "koordinator"
    models: ClassVar = {f"{GROUP}/{VERSION}": Device}
    advice: ClassVar = KOORDINATOR

    def served_kinds(self) -> Sequence[ServedKind]:
        from reconciler.plugins.koordinator.validation import DEVICE

        return (DEVICE,)

    def checks(self) -> "Checks":
        from reconciler.plugins.koordinator.doctor import CHECKS

        return CHECKS

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
        from reconciler.plugins.koordinator.cluster import kinds_beside_devices, with_devices

        return await with_devices(client, await kinds_beside_devices(client, settings))

    async def prepare(self, client: "Client", settings: "Settings", served: "Served") -> "Start | None":  # noqa: ARG002
        if not settings.koordinator:
            return None
        from reconciler.plugins.koordinator.running import KoordinatorRunning

        return KoordinatorRunning

    def replay(self, settings: Mapping[str, Any]) -> "ReplayPart":
        from reconciler.plugins.koordinator.journal import Replay

        return Replay(settings.get("koordinator_semantics", "proposal"))
