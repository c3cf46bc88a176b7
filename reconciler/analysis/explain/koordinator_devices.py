"""Why single devices of a machine do not suit a pod that requests Koordinator's devices."""

from collections.abc import Sequence

import numpy as np

from kernels.types import Mask, Rows
from reconciler.allocation.koordinator import device_tests
from reconciler.allocation.koordinator.fleet import Fleet
from reconciler.api.koordinator.names import TYPES
from reconciler.api.objects.meta import ObjectKey

MOST_HOLDERS = 3
_WHY = {
    device_tests.SELECTOR: "does not match the selector",
    device_tests.HEALTH: "is unhealthy",
    device_tests.FUNCTIONS: "has no virtual function that vfSelector matches",
    device_tests.SIZE: "is too small",
    device_tests.EXCLUSIVE: "is excluded by exclusive use",
    device_tests.FREE_FUNCTIONS: "has no free virtual function that vfSelector matches",
    device_tests.FREE: "has too little free",
}
_ABOUT_HOLDERS = {device_tests.EXCLUSIVE, device_tests.FREE_FUNCTIONS, device_tests.FREE}


def closest(rows: Rows, gates: Sequence[tuple[str, Mask]], most: int) -> list[int]:
    """Of `rows`, those that fail a gate, the last gates first: they come closest to passing."""
    failing = np.array([[not passed[row] for _, passed in gates] for row in rows.tolist()], dtype=np.bool_)
    if not len(failing):
        return []
    first = np.where(failing.any(axis=1), failing.argmax(axis=1), len(gates))
    order = np.lexsort((rows, -first))
    return [int(rows[at]) for at in order if first[at] < len(gates)][:most]


def describe(row: int, gates: Sequence[tuple[str, Mask]], fleet: Fleet) -> str:
    """The first gate that a device fails, with its holders if they are the cause."""
    columns = fleet.columns
    kind, minor = TYPES[columns.kind[row]], int(columns.minor[row])
    name = next(name for name, passed in gates if not passed[row])
    node = fleet.names[columns.owner[row]]
    holders = fleet.holders(node).pods(kind, minor) if name in _ABOUT_HOLDERS else ()
    return f"{kind} {minor} {_WHY[name]}{_by(holders)}"


def _by(holders: Sequence[ObjectKey]) -> str:
    if not holders:
        return ""
    more = len(holders) - MOST_HOLDERS
    named = ", ".join(map(str, holders[:MOST_HOLDERS]))
    return f" (held by {named}{f' and {more} more' if more > 0 else ''})"
