"""Finds fields that a server drops from our writes because their feature gate is off.

Source: ST-10. Only the response to a write shows this.
"""

from collections.abc import Iterator
from itertools import zip_longest

import structlog

from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Plan
from reconciler.api.objects.semantics import ADMIN_ACCESS, BINDING_CONDITIONS, CONSUMABLE_CAPACITY, TAINTS
from reconciler.cluster.client import Raw

log = structlog.get_logger()

_GATES = {
    "adminAccess": ADMIN_ACCESS,
    "bindingConditions": BINDING_CONDITIONS,
    "bindingFailureConditions": BINDING_CONDITIONS,
    "consumedCapacity": CONSUMABLE_CAPACITY,
    "shareID": CONSUMABLE_CAPACITY,
    "tolerations": TAINTS,
}
"""Field of a device in an allocation -> the gate that a server needs to keep it"""


class Dropped:
    """Records fields that the server changed in a write. Logs each field once."""

    def __init__(self) -> None:
        self.fields: dict[str, str] = {}
        """Field -> the gate that is probably off; empty if none explains it"""

    def compare(self, plan: Plan, written: ResourceClaim) -> None:
        """Compare a plan with the response to its write."""
        results = written.allocation.devices.results if written.allocation else ()
        if results == plan.allocation.devices.results:
            return
        sent = [device.to_json() for device in plan.allocation.devices.results]
        stored = [device.to_json() for device in results]
        nothing: Raw = {}
        found = dict.fromkeys(
            f"status.allocation.devices.results[].{name}"
            for before, after in zip_longest(sent, stored, fillvalue=nothing)
            for name in _differing(before, after)
        )
        for field in found:
            if field not in self.fields:
                self.fields[field] = gate = _GATES.get(field.rpartition(".")[2], "")
                log.warning("API server dropped a field", field=field, gate=gate, claim=str(written.key))


def _differing(before: Raw, after: Raw) -> Iterator[str]:
    return (name for name in {**before, **after} if before.get(name) != after.get(name))
