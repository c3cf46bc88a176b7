"""What the plugin for ProvisioningRequests brings to the program."""

from collections.abc import Sequence
from typing import ClassVar

from reconciler.api.validation.kinds import ServedKind
from reconciler.plugins.plugin import Plugin


class Provisioning(Plugin):
    """Asks a cluster autoscaler for nodes for pods that no present node can serve."""

    name: ClassVar = "provisioning"

    def served_kinds(self) -> Sequence[ServedKind]:
        from reconciler.plugins.provisioning.objects import PROVISIONING_REQUEST  # noqa: PLC0415

        return (PROVISIONING_REQUEST,)
