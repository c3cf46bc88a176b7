"""The fields that Kubernetes 1.36 has. Servers silently drop others; `convert` drops and reports them."""

from collections.abc import Mapping
from typing import Any

Shape = Mapping[str, "Shape | None"]
"""Field -> the fields below it (of each entry for a list); None keeps the value unchanged"""

_SELECTORS: Shape = {"cel": {"expression": None}}
_CONFIG: Shape = {"requests": None, "opaque": {"driver": None, "parameters": None}}
_SUBREQUEST: Shape = {
    "deviceClassName": None,
    "selectors": _SELECTORS,
    "allocationMode": None,
    "count": None,
    "tolerations": {"key": None, "operator": None, "value": None, "effect": None, "tolerationSeconds": None},
    "capacity": {"requests": None},
}
_CLAIM: Shape = {
    "devices": {
        "requests": {
            "name": None,
            "exactly": {**_SUBREQUEST, "adminAccess": None},
            "firstAvailable": {**_SUBREQUEST, "name": None},
        },
        "constraints": {"requests": None, "matchAttribute": None, "distinctAttribute": None},
        "config": _CONFIG,
    }
}
SPECS: Mapping[str, Shape] = {
    "ResourceClaim": _CLAIM,
    "ResourceClaimTemplate": {"metadata": None, "spec": _CLAIM},
    "DeviceClass": {"selectors": _SELECTORS, "config": _CONFIG, "extendedResourceName": None},
}
"""Kind -> its spec"""


def without_unknown_fields(value: Any, shape: Shape, path: str, unknown: dict[str, None]) -> Any:
    """`value` without fields that `shape` lacks; their paths are added to `unknown`, each once."""
    if isinstance(value, list):
        return [without_unknown_fields(entry, shape, path, unknown) for entry in value]
    if not isinstance(value, Mapping):
        return value
    made: dict[str, Any] = {}
    for key, part in value.items():
        way = f"{path}.{key}"
        if key not in shape:
            unknown[way] = None
        elif part is not None:
            below = shape[key]
            made[key] = part if below is None else without_unknown_fields(part, below, way, unknown)
    return made
