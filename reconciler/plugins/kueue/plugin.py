"""What Kueue's plugin brings to the program."""

from collections.abc import Sequence
from typing import ClassVar

from reconciler.api.validation.kinds import ServedKind
from reconciler.plugins.plugin import Plugin


class Kueue(Plugin):
    """An admission check: Workloads are admitted when their pods have room."""

    name: ClassVar = "kueue"

    def served_kinds(self) -> Sequence[ServedKind]:
        from reconciler.plugins.kueue.objects import (  # noqa: PLC0415 - only for servers
            ADMISSION_CHECK,
            RESOURCE_FLAVOR,
            WORKLOAD,
        )

        return (WORKLOAD, ADMISSION_CHECK, RESOURCE_FLAVOR)
