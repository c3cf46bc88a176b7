"""Frequent mistakes of manifests: other spellings, invalid names (V-1, V-4).

Those whose meaning is clear are fixed where a warning can be shown.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any
from zlib import crc32

from reconciler.api.validation.fields import is_dns_label, is_key
from reconciler.api.versions.kinds import KINDS
from reconciler.api.versions.shapes import Raw, mapping, mappings, with_requests
from reconciler.api.versions.v1beta1 import BASIC
from reconciler.errors import shortened


def invalid_names(spec: Raw) -> Iterator[str]:
    """The names in a slice with flat devices that servers reject, one line for each kind of name."""
    devices = mappings(spec.get("devices"))
    names = (device.get("name") for device in devices)
    yield from _line("device", (name for name in names if isinstance(name, str) and not is_dns_label(name)))
    for kind, field in (("attribute", "attributes"), ("capacity", "capacity")):
        # Each once: thousands of devices have the same few.
        keys = dict.fromkeys(key for device in devices for key in mapping(device.get(field)))
        yield from _line(kind, (key for key in keys if not is_key(str(key))))


def _line(kind: str, names: Iterable[str]) -> Iterator[str]:
    found = list(dict.fromkeys(names))
    if found:
        yield f"{kind} {shortened(found, 1)}: invalid name; `dra-reconciler convert` fixes it"


Warn = Callable[[str], None]

_KINDS: dict[type, str] = {bool: "bool", int: "int", str: "string"}
_NAMED = ("ResourceSlice", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate")
_WITH_BASIC = KINDS["ResourceSlice"].other_shapes


def fix_mistakes(raw: Raw, warn: Warn) -> Raw:
    """The object with clear mistakes fixed; `warn` receives one line for each."""
    if raw["kind"] in _NAMED:
        raw = _with_name(raw, warn)
    match raw["kind"]:
        case "ResourceClaim":
            return _claim(raw, warn)
        case "ResourceClaimTemplate" if isinstance(raw.get("spec"), Mapping):
            return {**raw, "spec": with_requests(raw["spec"], "spec.spec", partial(_request, warn))}
        case "DeviceClass" if isinstance(raw.get("spec"), Mapping):
            return {**raw, "spec": _fixed_selectors(raw["spec"], warn, "spec")}
        case "ResourceSlice" if isinstance(raw.get("spec"), Mapping):
            return {**raw, "spec": _devices(_with_pool(raw, warn), raw["apiVersion"], warn)}
    return raw


def _with_name(raw: Raw, warn: Warn) -> Raw:
    """Documentation often shows an object without its name."""
    metadata = raw.get("metadata")
    if not isinstance(metadata, Mapping) or "name" in metadata or metadata.get("generateName"):
        return raw
    name = f"unnamed-{crc32(json.dumps(raw, default=str).encode()):08x}"
    warn(f"metadata.name: is missing; {name} is used")
    return {**raw, "metadata": {**metadata, "name": name}}


def _with_pool(raw: Raw, warn: Warn) -> Raw:
    """The spec of a slice; without a pool it becomes the only slice of a new pool."""
    spec: Raw = raw["spec"]
    if spec.get("pool") is not None:
        return spec
    name = spec.get("nodeName") or mapping(raw.get("metadata")).get("name")
    warn(f"spec.pool: is missing; read as the only slice of pool {name}")
    return {**spec, "pool": {"name": name, "generation": 0, "resourceSliceCount": 1}}


def _claim(raw: Raw, warn: Warn) -> Raw:
    spec = mapping(raw.get("spec"))
    inner = spec.get("spec")
    if isinstance(inner, Mapping) and "devices" not in spec:
        warn("spec.spec: belongs in a ResourceClaimTemplate; read as the spec of the claim")
        raw = {**raw, "spec": {**{key: value for key, value in spec.items() if key != "spec"}, **inner}}
    return with_requests(raw, "spec", partial(_request, warn))


def _request(warn: Warn, request: Raw, path: str) -> Raw:
    made = dict(_fixed_selectors(request, warn, path))
    if isinstance(made.get("exactly"), Mapping):
        made["exactly"] = _fixed_selectors(made["exactly"], warn, f"{path}.exactly")
    if isinstance(made.get("firstAvailable"), list):
        made["firstAvailable"] = [
            _fixed_selectors(one, warn, f"{path}.firstAvailable[{at}]") if isinstance(one, Mapping) else one
            for at, one in enumerate(made["firstAvailable"])
        ]
    return made


def _fixed_selectors(holder: Raw, warn: Warn, path: str) -> Raw:
    """`holder` with each selector `cel: text` as `cel: {expression: text}`."""
    bare = [at for at, one in enumerate(mappings(holder.get("selectors"))) if isinstance(one.get("cel"), str)]
    if not bare:
        return holder
    warn(f"{path}.selectors[{bare[0]}].cel: must be an object; the text is read as its expression")
    selectors = [
        {**one, "cel": {"expression": one["cel"]}} if at in bare else one
        for at, one in enumerate(holder["selectors"])
    ]
    return {**holder, "selectors": selectors}


def _devices(spec: Raw, version: str, warn: Warn) -> Raw:
    if not isinstance(spec.get("devices"), list):
        return spec
    devices: list[Any] = []
    for number, device in enumerate(spec["devices"]):
        where = f"spec.devices[{number}]"
        if isinstance(device, Mapping) and "name" not in device:
            warn(f"{where}.name: is missing; the device is ignored")
        elif isinstance(device, Mapping) and version.endswith(_WITH_BASIC) and BASIC & device.keys():
            devices.append(_with_basic(device, version, warn, where))
        else:
            devices.append(_attributes(device, warn, where))
    return {**spec, "devices": devices}


def _with_basic(device: Raw, version: str, warn: Warn, where: str) -> Raw:
    """The device with all fields under `basic`; as it is if a field is in both places."""
    beside = {key: value for key, value in device.items() if key not in ("name", "basic")}
    basic = mapping(device.get("basic"))
    if beside.keys() & basic.keys():
        return device
    warn(f"{where}: its fields belong under `basic` in {version}; read as if they were there")
    return {"name": device["name"], "basic": _attributes({**basic, **beside}, warn, f"{where}.basic")}


def _attributes(device: Any, warn: Warn, where: str) -> Any:
    """A device with plain attribute values wrapped with their type."""
    attributes = mapping(mapping(device).get("attributes"))
    bare = [key for key, value in attributes.items() if type(value) in _KINDS]
    if not bare:
        return device
    warn(f"{where}.attributes.{bare[0]}: must be an object; read as a typed value")
    typed = {key: {_KINDS[type(value)]: value} if key in bare else value for key, value in attributes.items()}
    return {**device, "attributes": typed}
