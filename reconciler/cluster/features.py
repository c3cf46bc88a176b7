"""Finds the features that an API server lacks. It would drop their fields from our writes (ST-10).

A server does not show its gates to ordinary clients, so they are derived from its release and its kinds.
`--feature-gates` overrides gates that differ from their default.
"""

import re

from reconciler.api.objects.semantics import (
    ADMIN_ACCESS,
    BINDING_CONDITIONS,
    CONSUMABLE_CAPACITY,
    DEVICE_STATUS,
    FRACTIONAL_RANGE,
    LIST_ATTRIBUTES,
    PARTITIONABLE_DEVICES,
    PRIORITIZED_LIST,
    TAINT_RULES,
    TAINTS,
)
from reconciler.cluster.client import Client
from reconciler.cluster.kinds import Served

EMBEDDED = "dra-reconciler"
"""Part of the version of our embedded server, which has every feature."""

_ON_SINCE = {
    DEVICE_STATUS: 33,
    ADMIN_ACCESS: 34,
    PRIORITIZED_LIST: 34,
    BINDING_CONDITIONS: 36,
    CONSUMABLE_CAPACITY: 36,
    PARTITIONABLE_DEVICES: 36,
    TAINTS: 36,
    FRACTIONAL_RANGE: 37,
}
"""Gate -> minor release of Kubernetes 1 in which it is on by default.

Without DRADeviceCompatibilityGroups: groups are not written, and are read from an annotation if the server
drops the field.
"""


async def missing_gates(client: Client, served: Served) -> frozenset[str]:
    """Gates that are off on the server, as far as known. Raises Retry while it is unreachable."""
    version = await client.fetch("/version")
    if EMBEDDED in str(version.get("gitVersion", "")):
        return frozenset()
    off = {LIST_ATTRIBUTES}
    minor = re.match(r"[0-9]+", str(version.get("minor", "")))  # some vendors write 34+
    if minor is not None:
        off |= {gate for gate, since in _ON_SINCE.items() if int(minor[0]) < since}
    if "DeviceTaintRule" not in served:
        off.add(TAINT_RULES)
    return frozenset(off)
