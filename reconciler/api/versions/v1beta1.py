"""Converts resource.k8s.io/v1beta1 to the shape of v1. Source: rules VER-2 to VER-4."""

from collections.abc import Mapping
from typing import Any

from reconciler.api.objects.claims import INLINE
from reconciler.api.objects.model import aliases_of
from reconciler.api.objects.slices import Device
from reconciler.api.versions.shapes import Raw, mapping, mappings, with_requests
from reconciler.errors import Malformed


def slice_to_v1(raw: Raw, subject: str) -> dict[str, Any]:
    """A ResourceSlice with its devices flattened. In v1beta1 an unset node field is "" or false.

    Raises Malformed for a device with fields in the shape of v1, which would get lost.
    """
    if not isinstance(raw.get("spec"), Mapping):
        return dict(raw)
    spec = dict(raw["spec"])
    if isinstance(spec.get("devices"), list):
        _refuse_flat(spec["devices"], subject)
        spec["devices"] = [_flat(device) for device in spec["devices"] if not is_later_kind(device)]
    if spec.get("nodeName") == "":
        del spec["nodeName"]
    if spec.get("allNodes") is False:
        del spec["allNodes"]
    return {**raw, "spec": spec}


def is_later_kind(device: Any) -> bool:
    """Whether this kind of device is newer than v1beta1, so that it has no `basic`. It is not allocated."""
    return isinstance(device, Mapping) and not isinstance(device.get("basic"), Mapping)


def _flat(device: Any) -> Any:
    return {**device["basic"], "name": device.get("name")} if isinstance(device, Mapping) else device


BASIC = frozenset(aliases_of(Device)) - {"name"}
"""Fields of a device that are under `basic` in this version"""


def _refuse_flat(devices: list[Any], subject: str) -> None:
    for number, device in enumerate(devices):
        for key in mapping(device):
            if key in BASIC:
                field = f"spec.devices[{number}].{key}"
                raise Malformed(
                    subject, field, "belongs under `basic` in v1beta1; move it there, or set the version v1"
                )


def claim_to_v1(raw: Raw, subject: str, where: str = "spec") -> Raw:
    """A ResourceClaim whose requests have `exactly`. Validation rejects invalid parts later."""
    return with_requests(raw, where, lambda request, at: _request(request, subject, at))


def template_to_v1(raw: Raw, subject: str) -> Raw:
    """A ResourceClaimTemplate whose requests have `exactly`."""
    if not isinstance(raw.get("spec"), Mapping):
        return raw
    return {**raw, "spec": claim_to_v1(raw["spec"], subject, "spec.spec")}


REMOVED = ("resourceClassName", "parametersRef", "controller", "allocationMode")
"""Fields of claims that another component than a scheduler allocates; Kubernetes 1.32 has none of them"""


def refuse_removed(spec: Any, subject: str, where: str) -> None:
    """Raise Malformed if the spec of a claim asks a control plane controller for something.

    Without the field, the claim would get what it does not ask for, or nothing and be ready.
    """
    given = mapping(spec)
    for key in REMOVED:
        if given.get(key):
            raise Malformed(
                subject,
                f"{where}.{key}",
                "was removed in Kubernetes 1.32, with allocation by controllers of drivers; "
                "remove it, and request devices of a DeviceClass in `devices`",
            )


def _request(request: Raw, subject: str, where: str) -> Raw:
    inline = {key: request[key] for key in INLINE if _is_set(key, request.get(key))}
    if inline and request.get("exactly") is not None:
        raise Malformed(
            subject, f"{where}.exactly", "belongs to v1; move its fields up, or set the version v1"
        )
    rest = {key: value for key, value in request.items() if key not in INLINE}
    return {**rest, "exactly": inline} if inline else rest


def _is_set(key: str, value: Any) -> bool:
    """In this version an empty string or a zero count is an unset field."""
    return value not in (None, "") and not (key == "count" and value == 0)


def refuse_in_v1(raw: Raw, subject: str) -> None:
    """Raise Malformed if a slice of v1 or v1beta2 has the shape of v1beta1.

    A server would drop such fields and store a device without attributes.
    """
    spec = mapping(raw.get("spec"))
    for number, device in enumerate(mappings(spec.get("devices"))):
        if "basic" in device:
            field = f"spec.devices[{number}].basic"
            raise Malformed(
                subject, field, "belongs to v1beta1; move its fields up, or set the version v1beta1"
            )
