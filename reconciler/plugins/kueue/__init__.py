"""What Kueue's plugin brings to the program."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from reconciler.api.validation.kinds import ServedKind
from reconciler.plugins.plugin import Plugin

if TYPE_CHECKING:
    from reconciler.app.control import Start
    from reconciler.cluster.client import Client
    from reconciler.cluster.kinds import Served
    from reconciler.settings import Settings

# ruff: noqa: PLC0415 - most commands need none of what is imported below


class Kueue(Plugin):
    """An admission check: Workloads are admitted when their pods have room."""

    name: ClassVar = "kueue"

    def served_kinds(self) -> Sequence[ServedKind]:
        from reconciler.plugins.kueue.objects import ADMISSION_CHECK, RESOURCE_FLAVOR, WORKLOAD

        return (WORKLOAD, ADMISSION_CHECK, RESOURCE_FLAVOR)

    async def prepare(self, client: "Client", settings: "Settings", served: "Served") -> "Start | None":
        if not settings.kueue_check or settings.mode == "shadow":
            return None
        from reconciler.plugins.kueue.checker import KueueRunning, kinds_for_check

        return partial(KueueRunning, await kinds_for_check(settings, client), served["ResourceClaim"])
