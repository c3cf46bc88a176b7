"""A fast reader for the status of claims: the answer to every allocation has one.

It reads what a server sends for nearly all devices, their names. The models read every other status.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import astuple

from reconciler.api.objects.claims import (
    AllocatedDevice,
    Allocation,
    ConsumerReference,
    DeviceAllocation,
    ResourceClaimStatus,
)
from reconciler.api.objects.model import Maker
from reconciler.api.objects.selectors import NodeSelector
from reconciler.api.versions.text_fields import once

CACHE_SIZE = 1 << 12
"""Distinct node selectors in the cache: mostly one a node"""


class _DeviceText(msgspec.Struct, rename="camel", gc=False):
    request: str
    driver: str
    pool: str
    device: str
    admin_access: Raw | UnsetType = UNSET
    tolerations: Raw | UnsetType = UNSET
    binding_conditions: Raw | UnsetType = UNSET
    binding_failure_conditions: Raw | UnsetType = UNSET
    share_id: Raw | UnsetType = msgspec.field(default=UNSET, name="shareID")
    consumed_capacity: Raw | UnsetType = UNSET
    skip_node_operations: Raw | UnsetType = UNSET


class _DevicesText(msgspec.Struct, rename="camel", gc=False):
    results: list[_DeviceText]
    config: Raw | UnsetType = UNSET


class _AllocationText(msgspec.Struct, rename="camel", gc=False):
    devices: _DevicesText
    node_selector: Raw | UnsetType = UNSET
    allocation_timestamp: str | UnsetType = UNSET


class _ConsumerText(msgspec.Struct, rename="camel", gc=False):
    resource: str
    name: str
    uid: str
    api_group: str | UnsetType = UNSET


class _StatusText(msgspec.Struct, rename="camel", gc=False):
    allocation: _AllocationText | UnsetType = UNSET
    reserved_for: list[_ConsumerText] | UnsetType = UNSET
    devices: Raw | UnsetType = UNSET


_cut = msgspec.json.Decoder(_StatusText).decode
_status_of, _allocation_of, _devices_of = (
    Maker(ResourceClaimStatus),
    Maker(Allocation),
    Maker(DeviceAllocation),
)
_device_of, _consumer_of = Maker(AllocatedDevice), Maker(ConsumerReference)
_NOTHING_RARE = [UNSET] * 7
"""The fields of a device that are no names"""


def read_status(text: bytes) -> ResourceClaimStatus:
    """The status in its text, as the models read it. Raises ValueError."""
    try:
        found = _read(_cut(text))
    except (ValueError, msgspec.MsgspecError):
        found = None
    return ResourceClaimStatus.model_validate_json(text) if found is None else found


def _read(cut: _StatusText) -> ResourceClaimStatus | None:
    """The status; None if only the models can read it. Raises ValueError for what they may refuse."""
    if cut.devices is not UNSET:
        return None
    fields: dict[str, Any] = {}
    if cut.allocation is not UNSET:
        devices = _devices(cut.allocation.devices)
        if devices is None:
            return None
        fields["allocation"] = _allocation(cut.allocation, devices)
    if cut.reserved_for is not UNSET:
        fields["reserved_for"] = tuple([_consumer(one) for one in cut.reserved_for])
    return _status_of(fields)


def _allocation(cut: _AllocationText, devices: Sequence[AllocatedDevice]) -> Allocation:
    fields: dict[str, Any] = {"devices": _devices_of({"results": tuple(devices)})}
    if cut.node_selector is not UNSET:
        fields["node_selector"] = _selector(bytes(cut.node_selector))
    if cut.allocation_timestamp is not UNSET:
        fields["allocation_timestamp"] = cut.allocation_timestamp
    return _allocation_of(fields)


def _devices(cut: _DevicesText) -> list[AllocatedDevice] | None:
    """The devices; None if there is more to them than names."""
    if cut.config is not UNSET:
        return None
    found = []
    for one in cut.results:
        request, driver, pool, device, *rare = astuple(one)
        if rare != _NOTHING_RARE:
            return None
        names = {"request": request, "driver": driver, "pool": pool, "device": device}
        found.append(_device_of(names))
    return found


def _consumer(cut: _ConsumerText) -> ConsumerReference:
    fields = {"resource": cut.resource, "name": cut.name, "uid": cut.uid}
    if cut.api_group is not UNSET:
        fields["api_group"] = cut.api_group
    return _consumer_of(fields)


_selector = once(NodeSelector.model_validate_json, CACHE_SIZE)
