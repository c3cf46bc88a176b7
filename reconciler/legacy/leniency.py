"""What published manifests get wrong and mean clearly: put right, with a warning, in what people write.

An API server refuses or drops these. So they are put right only where warnings can be given.
"""

from collections.abc import Callable, Mapping
from typing import Any

from reconciler.legacy.shapes import Raw, mapping, mappings

Warn = Callable[[str], None]

_KINDS: dict[type, str] = {bool: "bool", int: "int", str: "string"}


def put_right(raw: Raw, warn: Warn) -> Raw:
    """The object with what is clear enough put right; `warn` is told in one line each."""
    match raw["kind"]:
        case "ResourceClaim":
            return _claim(raw, warn)
        case "ResourceClaimTemplate" if isinstance(raw.get("spec"), Mapping):
            return {**raw, "spec": _with_selectors(raw["spec"], warn, "spec.spec")}
        case "DeviceClass" if isinstance(raw.get("spec"), Mapping):
            return {**raw, "spec": _selectors(raw["spec"], warn, "spec")}
        case "ResourceSlice" if isinstance(raw.get("spec"), Mapping):
            return {**raw, "spec": _attributes(raw["spec"], warn)}
    return raw


def _claim(raw: Raw, warn: Warn) -> Raw:
    spec = mapping(raw.get("spec"))
    inner = spec.get("spec")
    if isinstance(inner, Mapping) and "devices" not in spec:
        warn("spec.spec: is for a ResourceClaimTemplate; taken for the spec of the claim")
        raw = {**raw, "spec": {**{key: value for key, value in spec.items() if key != "spec"}, **inner}}
    return _with_selectors(raw, warn, "spec")


def _with_selectors(raw: Raw, warn: Warn, path: str) -> Raw:
    """`raw` with the selectors put right of the claim spec in its `spec`."""
    spec = raw.get("spec")
    if not isinstance(spec, Mapping):
        return raw
    if "resourceClassName" in spec:
        warn(f"{path}.resourceClassName: was dropped in 1.31; without `devices` nothing is asked for")
    devices = spec.get("devices")
    if not isinstance(devices, Mapping) or not isinstance(devices.get("requests"), list):
        return raw
    requests = [
        _request(request, warn, f"{path}.devices.requests[{number}]")
        for number, request in enumerate(devices["requests"])
    ]
    return {**raw, "spec": {**spec, "devices": {**devices, "requests": requests}}}


def _request(request: Any, warn: Warn, path: str) -> Any:
    if not isinstance(request, Mapping):
        return request
    made = dict(_selectors(request, warn, path))
    if isinstance(made.get("exactly"), Mapping):
        made["exactly"] = _selectors(made["exactly"], warn, f"{path}.exactly")
    if isinstance(made.get("firstAvailable"), list):
        made["firstAvailable"] = [
            _selectors(one, warn, f"{path}.firstAvailable[{at}]") if isinstance(one, Mapping) else one
            for at, one in enumerate(made["firstAvailable"])
        ]
    return made


def _selectors(holder: Raw, warn: Warn, path: str) -> Raw:
    """`holder` with each selector `cel: text` as `cel: {expression: text}`."""
    bare = [at for at, one in enumerate(mappings(holder.get("selectors"))) if isinstance(one.get("cel"), str)]
    if not bare:
        return holder
    warn(f"{path}.selectors[{bare[0]}].cel: must be an object; the text is taken for its expression")
    selectors = [
        {**one, "cel": {"expression": one["cel"]}} if at in bare else one
        for at, one in enumerate(holder["selectors"])
    ]
    return {**holder, "selectors": selectors}


def _attributes(spec: Raw, warn: Warn) -> Raw:
    """The spec with attributes that are plain values given the type that they have."""
    if not isinstance(spec.get("devices"), list):
        return spec
    return {**spec, "devices": [_device(device, warn, at) for at, device in enumerate(spec["devices"])]}


def _device(device: Any, warn: Warn, number: int) -> Any:
    attributes = mapping(mapping(device).get("attributes"))
    bare = [key for key, value in attributes.items() if type(value) in _KINDS]
    if not bare:
        return device
    warn(f"spec.devices[{number}].attributes.{bare[0]}: must be an object; taken for a typed value")
    typed = {key: {_KINDS[type(value)]: value} if key in bare else value for key, value in attributes.items()}
    return {**device, "attributes": typed}
