"""Held devices with a NoExecute taint: Kubernetes evicts the pods that hold them without tolerating it."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.semantics import TAINTS
from reconciler.state.devices.snapshot import Snapshot

NO_EXECUTE = "NoExecute"


class HeldUnderTaint(NamedTuple):
    """A held device, and its NoExecute taints."""

    row: int
    device: DeviceID
    taints: tuple[str, ...]
    claims: tuple[ObjectKey, ...]

    def __str__(self) -> str:
        word = "taint" if len(self.taints) == 1 else "taints"
        holders = ", ".join(map(str, self.claims))
        return f"{self.device} has the {word} {', '.join(self.taints)} and is held by {holders}"


def held_under_taint(snapshot: Snapshot) -> Iterator[HeldUnderTaint]:
    """The held devices with a NoExecute taint, in the order of the fleet."""
    fleet, occupancy = snapshot.fleet, snapshot.occupancy
    if not snapshot.rules.has(TAINTS):
        return
    values = fleet.vocabulary.taints.values
    for row in np.flatnonzero((occupancy.held | occupancy.sharing) & (fleet.codes["taints"] >= 0)).tolist():
        taints = tuple(
            f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"
            for taint in values[int(fleet.codes["taints"][row])]
            if taint.effect == NO_EXECUTE
        )
        device = fleet.id_of(row)
        if taints and (claims := occupancy.claims_of(device)):
            yield HeldUnderTaint(row, device, taints, claims)
