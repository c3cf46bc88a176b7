"""resource.k8s.io/v1beta1 as v1 spells it. Source: rules VER-2 to VER-4."""

from collections.abc import Mapping
from typing import Any

from reconciler.errors import Malformed

Raw = Mapping[str, Any]

INLINE = ("deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity")
"""Fields of `exactly` that v1beta1 writes into the request itself."""


def slice_to_v1(raw: Raw) -> dict[str, Any]:
    """A ResourceSlice with its devices flattened. Unset node fields are spelled "" and false there."""
    spec = _map(raw.get("spec"))
    devices = [_flat(device) for device in _list(spec.get("devices"))]
    spec["devices"] = [device for device in devices if device is not None]
    if spec.get("nodeName") == "":
        del spec["nodeName"]
    if spec.get("allNodes") is False:
        del spec["allNodes"]
    return {**raw, "spec": spec}


def _flat(device: Any) -> Any:
    """None for a device without `basic`: a kind of device newer than this version, not to be allocated."""
    if not isinstance(device, Mapping):
        return device
    basic = device.get("basic")
    return {**basic, "name": device.get("name")} if isinstance(basic, Mapping) else None


def claim_to_v1(raw: Raw) -> dict[str, Any]:
    """A ResourceClaim whose requests have `exactly`."""
    return {**raw, "spec": _claim_spec(raw.get("spec"))}


def template_to_v1(raw: Raw) -> dict[str, Any]:
    """A ResourceClaimTemplate whose requests have `exactly`."""
    spec = _map(raw.get("spec"))
    return {**raw, "spec": {**spec, "spec": _claim_spec(spec.get("spec"))}}


def _claim_spec(raw: Any) -> Any:
    spec = _map(raw)
    if not isinstance(spec.get("devices"), Mapping):
        return spec
    devices = dict(spec["devices"])
    devices["requests"] = [_request(request) for request in _list(devices.get("requests"))]
    return {**spec, "devices": devices}


def _request(request: Any) -> Any:
    if not isinstance(request, Mapping):
        return request
    inline = {key: request[key] for key in INLINE if request.get(key) is not None}
    rest = {key: value for key, value in request.items() if key not in INLINE}
    return {**rest, "exactly": inline} if inline else rest


def refuse_in_v1(raw: Raw, subject: str) -> None:
    """Raise Malformed when an object that says v1 or v1beta2 has the shape of v1beta1.

    A server would drop such fields and store a device without attributes, or a request without a class.
    """
    spec = _map(raw.get("spec"))
    for number, device in enumerate(_list(spec.get("devices"))):
        if isinstance(device, Mapping) and "basic" in device:
            field = f"spec.devices[{number}].basic"
            raise Malformed(
                subject, field, "belongs to v1beta1; move its fields up, or write v1beta1 as the version"
            )
    inner, path = (
        (spec.get("spec"), "spec.spec") if raw.get("kind") == "ResourceClaimTemplate" else (spec, "spec")
    )
    devices = _map(inner).get("devices")
    if not isinstance(devices, Mapping):
        return
    for number, request in enumerate(_list(devices.get("requests"))):
        if isinstance(request, Mapping):
            for key in INLINE:
                if key in request:
                    field = f"{path}.devices.requests[{number}].{key}"
                    raise Malformed(
                        subject, field, "belongs under `exactly`; directly in a request it is v1beta1"
                    )


def _map(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
