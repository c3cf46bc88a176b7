"""Fields of devices that an API server drops, carried by an annotation of their slice.

The annotation is JSON, device name -> the fields as they would stand in the device:
`{"gpu-0": {"compatibleOnlyWith": {"expression": "..."}, "consumesCounters": [{"counterSet": "gpu-0-cs",
"compatibilityGroups": ["mig"]}]}}`. Where a device has the field itself, the field wins.
"""

import json
from collections.abc import Iterator
from typing import Any

from reconciler.errors import Malformed
from reconciler.legacy.shapes import Raw, mapping, mappings

ANNOTATION = "dra-reconciler.io/device-extensions"
FIELD = f"metadata.annotations[{ANNOTATION}]"

MAX_LENGTH = 2**20
"""Characters. The API limits all annotations of an object to a quarter of this."""

STATED, GROUPS = "compatibleOnlyWith", "compatibilityGroups"


def extended(raw: Raw, subject: str) -> Raw:
    """A slice with the fields of its annotation in place. Raises Malformed for what cannot be read."""
    extras = _extras(raw, subject)
    devices = mapping(raw.get("spec")).get("devices")
    if not extras or not isinstance(devices, list):
        return raw
    made = [_device(device, extras) for device in devices]
    return {**raw, "spec": {**raw["spec"], "devices": made}}


def annotated(raw: Raw) -> Raw:
    """A slice with such fields moved to its annotation, so that a server keeps them.

    Raises Malformed if there is an annotation already that cannot be read.
    """
    devices = mapping(raw.get("spec")).get("devices")
    if not isinstance(devices, list):
        return raw
    extras = {name: mapping(fields) for name, fields in _extras(raw, "slice").items()}
    made = []
    for device in devices:
        merged = _device(device, extras)
        fields = _fields(mapping(merged))
        if fields:
            name = str(merged.get("name"))
            extras[name] = {**extras.get(name, {}), **fields}
        made.append(_without(merged) if isinstance(merged, dict) else merged)
    if not extras:
        return raw
    metadata = mapping(raw.get("metadata"))
    text = json.dumps(extras, separators=(",", ":"))
    annotations = {**mapping(metadata.get("annotations")), ANNOTATION: text}
    spec = {**raw["spec"], "devices": made}
    return {**raw, "metadata": {**metadata, "annotations": annotations}, "spec": spec}


def conflicts(raw: Raw) -> list[str]:
    """What of a slice's annotation has no effect, a line each: fields that win, names that are not there.

    Takes a slice as v1 spells it. Raises Malformed for an annotation that cannot be read.
    """
    extras = _extras(raw, str(mapping(raw.get("metadata")).get("name") or "slice"))
    devices = {device.get("name"): device for device in mappings(mapping(raw.get("spec")).get("devices"))}
    found: list[str] = []
    for name, fields in extras.items():
        if name not in devices:
            found.append(f"{FIELD} speaks of device {name}, which the slice does not have")
        else:
            found += _conflicts(name, devices[name], mapping(fields))
    return found


def _conflicts(name: str, device: Raw, fields: Raw) -> Iterator[str]:
    stated, own = fields.get(STATED), device.get(STATED)
    if stated is not None and own is not None and stated != own:
        yield f"device {name}: {STATED} stands in the device and, differently, in {FIELD}; the field is used"
    drawn = {_counter_set(draw): draw for draw in mappings(device.get("consumesCounters"))}
    for draw in mappings(fields.get("consumesCounters")):
        counter_set, groups = _counter_set(draw), draw.get(GROUPS)
        if counter_set not in drawn:
            yield f"device {name}: {FIELD} speaks of counter set {counter_set}, which it does not draw from"
        elif groups and (own := drawn[counter_set].get(GROUPS)) and set(own) != set(groups):
            yield (
                f"device {name}, counter set {counter_set}: {GROUPS} stands in the device and, differently, "
                f"in {FIELD}; the field is used"
            )


def _extras(raw: Raw, subject: str) -> dict[str, Any]:
    text = mapping(mapping(raw.get("metadata")).get("annotations")).get(ANNOTATION)
    if not text:
        return {}
    if len(text) > MAX_LENGTH:
        raise Malformed(subject, FIELD, f"has {len(text)} characters; at most {MAX_LENGTH} are read")
    try:
        found = json.loads(text)
    except RecursionError as exc:
        raise Malformed(subject, FIELD, "nests too deeply") from exc
    except (TypeError, ValueError) as exc:
        raise Malformed(subject, FIELD, f"is not JSON: {exc}") from exc
    if not isinstance(found, dict) or not all(isinstance(fields, dict) for fields in found.values()):
        raise Malformed(subject, FIELD, "must be an object of device names, each with an object of fields")
    return found


def _counter_set(draw: Raw) -> str:
    """The name of the counter set, as far as it is one: what is none is refused where it is validated."""
    return str(draw.get("counterSet"))


def _device(device: Any, extras: Raw) -> Any:
    if not isinstance(device, dict):
        return device
    fields = mapping(extras.get(str(device.get("name"))))
    if not fields:
        return device
    made = dict(device)
    if fields.get(STATED) is not None and made.get(STATED) is None:
        made[STATED] = fields[STATED]
    groups = {
        _counter_set(draw): draw[GROUPS]
        for draw in mappings(fields.get("consumesCounters"))
        if draw.get(GROUPS)
    }
    drawn = made.get("consumesCounters")
    if groups and isinstance(drawn, list):
        made["consumesCounters"] = [
            {**draw, GROUPS: groups[_counter_set(draw)]}
            if isinstance(draw, dict) and _counter_set(draw) in groups and not draw.get(GROUPS)
            else draw
            for draw in drawn
        ]
    return made


def _fields(device: Raw) -> dict[str, Any]:
    """What of a device has to be carried."""
    drawn = [
        {"counterSet": draw.get("counterSet"), GROUPS: draw[GROUPS]}
        for draw in mappings(device.get("consumesCounters"))
        if draw.get(GROUPS)
    ]
    fields: dict[str, Any] = {"consumesCounters": drawn} if drawn else {}
    return {**fields, STATED: device[STATED]} if device.get(STATED) is not None else fields


def _without(device: dict[str, Any]) -> dict[str, Any]:
    """The device as a server knows it."""
    made = {key: value for key, value in device.items() if key != STATED}
    if isinstance(made.get("consumesCounters"), list):
        made["consumesCounters"] = [
            {key: value for key, value in draw.items() if key != GROUPS} if isinstance(draw, dict) else draw
            for draw in made["consumesCounters"]
        ]
    return made
