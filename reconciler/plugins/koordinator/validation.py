"""Koordinator's Device: the rules of its CustomResourceDefinition."""

from datetime import datetime
from typing import Final

from reconciler.api.validation.columns import NAMED
from reconciler.api.validation.fields import Field
from reconciler.api.validation.kinds import GroupVersion, Object, Review, ServedKind

_TYPES = ("fpga", "gpu", "rdma")
_BITS = 31


def default_device(obj: Object, _now: datetime) -> None:
    """Set the default of health: a device is unhealthy unless the object states that it is healthy."""
    spec = obj.get("spec")
    devices = spec.get("devices") if isinstance(spec, dict) else None
    for device in devices if isinstance(devices, list) else ():
        if isinstance(device, dict):
            device.setdefault("health", False)


def check_device(root: Field, _review: Review) -> None:
    """Check the devices of one node."""
    for device in root["spec"]["devices"].items():
        if device["type"].text():
            device["type"].one_of(_TYPES)
        for key in ("minor", "moduleID"):
            _check_number(device[key])
        device["id"].text()
        device["health"].flag()
        device["labels"].object()
        device["resources"].object()
        if device["topology"].present:
            _check_topology(device["topology"])
        for group in device["vfGroups"].items():
            for vf in group["vfs"].items():
                _require(vf, "minor")
                _check_number(vf["minor"])
                vf["busID"].text()


def _check_topology(topology: Field) -> None:
    _require(topology, "socketID", "nodeID", "pcieID")
    _check_number(topology["socketID"])
    _check_number(topology["nodeID"])
    topology["pcieID"].text()
    topology["busID"].text()


def _require(where: Field, *keys: str) -> None:
    for key in keys:
        if not where[key].present:
            where[key].required()


def _check_number(number: Field) -> None:
    if not -(2**_BITS) <= number.integer() < 2**_BITS:
        number.invalid("must be a 32-bit integer")


DEVICE: Final = ServedKind(
    "Device", "devices", "device", (GroupVersion("scheduling.koordinator.sh", "v1alpha1"),),
    description="The devices of one node, as Koordinator's koordlet publishes them.",
    namespaced=False, has_status=True, counts_generations=True, unconditional=False, columns=NAMED,
    defaults=default_device, rules=check_device,
)  # fmt: skip
"""Served on real servers once Koordinator's resource definition is installed."""
