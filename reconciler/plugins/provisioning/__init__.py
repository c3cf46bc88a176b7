"""What the plugin for ProvisioningRequests brings to the program."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from reconciler.api.validation.kinds import ServedKind
from reconciler.plugins.plugin import Plugin

if TYPE_CHECKING:
    from reconciler.app.control import Start
    from reconciler.cluster.client import Client
    from reconciler.cluster.kinds import Served
    from reconciler.settings import Settings

# ruff: noqa: PLC0415 - most commands need none of what is imported below


class Provisioning(Plugin):
    """Asks a cluster autoscaler for nodes for pods that no present node can serve."""

    name: ClassVar = "provisioning"

    def served_kinds(self) -> Sequence[ServedKind]:
        from reconciler.plugins.provisioning.objects import PROVISIONING_REQUEST

        return (PROVISIONING_REQUEST,)

    async def prepare(self, client: "Client", settings: "Settings", served: "Served") -> "Start | None":  # noqa: ARG002
        if not settings.provisioning_requests or settings.mode == "shadow":
            return None
        from reconciler.plugins.provisioning.provisioner import ProvisioningRunning, check_provisioning

        await check_provisioning(client)
        return ProvisioningRunning
