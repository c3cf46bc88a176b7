"""What shares consume of devices, as numbers by which derived values are remembered."""

from typing import Generic, TypeVar

from kernels.types import Codes, Rows
from reconciler.state.devices.occupancy.occupancy import Consumptions
from reconciler.state.devices.snapshot.snapshot import Snapshot

K = TypeVar("K")
V = TypeVar("V")

KEPT = 100_000
"""Values that are remembered together. More than that are forgotten together."""


class Remembered(Generic[K, V]):
    """Values by numbers of `Occupancy.consumptions`. Forgotten when consumptions are numbered anew."""

    def __init__(self) -> None:
        self._numbers: Consumptions | None = None
        self._known: dict[K, V] = {}

    def of(self, numbers: Consumptions) -> dict[K, V]:
        """The values for these numbers so far. The caller adds those that are missing."""
        if self._numbers is not numbers or len(self._known) > KEPT:
            self._numbers, self._known = numbers, {}
        return self._known


def shares_of(rows: Rows, snapshot: Snapshot) -> tuple[Codes, Codes]:
    """(n,) the number of what shares consume of each device, and (n,) the code of its capacities."""
    return snapshot.occupancy.consumption[rows], snapshot.fleet.codes["shape"][rows]
