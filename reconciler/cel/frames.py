"""The state of one evaluation."""

from reconciler.cel.device import DeviceView
from reconciler.cel.errors import CelError, Exhausted
from reconciler.cel.limits import COST_LIMIT
from reconciler.cel.values import Value


class Frame:
    """A device, the values of the bound names, and the remaining steps."""

    __slots__ = ("device", "remaining", "slots")

    def __init__(self, device: DeviceView, names: int, remaining: int = COST_LIMIT) -> None:
        self.device = device
        self.slots: list[Value] = [None] * names
        self.remaining = remaining

    def charge(self, steps: int) -> None:
        """Count `steps`. Raises Exhausted beyond the limit."""
        self.remaining -= steps
        if self.remaining < 0:
            raise Exhausted(f"the evaluation exceeds {COST_LIMIT} steps")


class Failed:
    """A bound name whose value could not be computed: an error only where the name is used."""

    __slots__ = ("error",)

    def __init__(self, error: CelError) -> None:
        self.error = error
