"""What Koordinator's plugin brings to the program."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from reconciler.api.validation.kinds import ServedKind
from reconciler.plugins.koordinator.objects import GROUP, VERSION, Device
from reconciler.plugins.koordinator.reasons import KOORDINATOR
from reconciler.plugins.plugin import Plugin

if TYPE_CHECKING:
    from reconciler.analysis.doctor.checks import Checks


class Koordinator(Plugin):
    """Devices of machines, for pods that request them by resources and annotations."""

    name: ClassVar = "koordinator"
    models: ClassVar = {f"{GROUP}/{VERSION}": Device}
    advice: ClassVar = KOORDINATOR

    def served_kinds(self) -> Sequence[ServedKind]:
        from reconciler.plugins.koordinator.validation import DEVICE  # noqa: PLC0415 - only for servers

        return (DEVICE,)

    def checks(self) -> "Checks":
        from reconciler.plugins.koordinator.doctor import CHECKS  # noqa: PLC0415 - only for doctor

        return CHECKS
