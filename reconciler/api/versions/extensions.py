"""Fields of devices that an API server drops, stored in an annotation of their slice.

The annotation is JSON, device name -> the fields as in the device:
`{"gpu-0": {"compatibleOnlyWith": {"expression": "..."}, "consumesCounters": [{"counterSet": "gpu-0-cs",
"compatibilityGroups": ["mig"]}]}}`. If the device has the field itself, the annotation is ignored.
"""

import json
from collections.abc import Iterator
from typing import Any

from reconciler.api.versions.shapes import Raw, mapping, mappings
from reconciler.errors import Malformed

ANNOTATION = "dra-reconciler.io/device-extensions"
FIELD = f"metadata.annotations[{ANNOTATION}]"

MAX_LENGTH = 2**20
"""Characters. The API limits all annotations of an object to a quarter of it."""

COMPATIBLE_ONLY_WITH, COMPATIBILITY_GROUPS = "compatibleOnlyWith", "compatibilityGroups"


def with_annotated_fields(raw: Raw, subject: str) -> Raw:
    """A slice with the fields of its annotation in its devices. Raises Malformed if that is invalid."""
    extras = _extras(raw, subject)
    devices = mapping(raw.get("spec")).get("devices")
    if not extras or not isinstance(devices, list):
        return raw
    made = [_device(device, extras) for device in devices]
    return {**raw, "spec": {**raw["spec"], "devices": made}}


def with_annotation(raw: Raw) -> Raw:
    """A slice with these fields moved to its annotation, so that a server keeps them.

    Raises Malformed if the slice already has an invalid annotation.
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
    """The parts of a slice's annotation without effect, one line each: overridden fields, unknown names.

    Takes a slice in the shape of v1. Raises Malformed for an invalid annotation.
    """
    extras = _extras(raw, str(mapping(raw.get("metadata")).get("name") or "slice"))
    devices = {device.get("name"): device for device in mappings(mapping(raw.get("spec")).get("devices"))}
    found: list[str] = []
    for name, fields in extras.items():
        if name not in devices:
            found.append(f"{FIELD} names device {name}, which the slice does not have")
        else:
            found += _conflicts(name, devices[name], mapping(fields))
    return found


def _conflicts(name: str, device: Raw, fields: Raw) -> Iterator[str]:
    stated, own = fields.get(COMPATIBLE_ONLY_WITH), device.get(COMPATIBLE_ONLY_WITH)
    if stated is not None and own is not None and stated != own:
        what = f"{COMPATIBLE_ONLY_WITH} differs between the device and {FIELD}"
        yield f"device {name}: {what}; the device's is used"
    drawn = {_counter_set(draw): draw for draw in mappings(device.get("consumesCounters"))}
    for draw in mappings(fields.get("consumesCounters")):
        counter_set, groups = _counter_set(draw), draw.get(COMPATIBILITY_GROUPS)
        if counter_set not in drawn:
            yield f"device {name}: {FIELD} names counter set {counter_set}; the device does not draw from it"
        elif groups and (own := drawn[counter_set].get(COMPATIBILITY_GROUPS)) and set(own) != set(groups):
            what = f"{COMPATIBILITY_GROUPS} differs between the device and {FIELD}"
            yield f"device {name}, counter set {counter_set}: {what}; the device's is used"


def _extras(raw: Raw, subject: str) -> dict[str, Any]:
    text = mapping(mapping(raw.get("metadata")).get("annotations")).get(ANNOTATION)
    if not text:
        return {}
    if len(text) > MAX_LENGTH:
        raise Malformed(subject, FIELD, f"has {len(text)} characters; at most {MAX_LENGTH} are allowed")
    try:
        found = json.loads(text)
    except RecursionError as exc:
        raise Malformed(subject, FIELD, "is nested too deeply") from exc
    except (TypeError, ValueError) as exc:
        raise Malformed(subject, FIELD, f"is not JSON: {exc}") from exc
    if not isinstance(found, dict) or not all(isinstance(fields, dict) for fields in found.values()):
        raise Malformed(subject, FIELD, "must be an object: device name -> object of fields")
    return found


def _counter_set(draw: Raw) -> str:
    """The name of the counter set. An invalid one is rejected later, when the slice is validated."""
    return str(draw.get("counterSet"))


def _device(device: Any, extras: Raw) -> Any:
    if not isinstance(device, dict):
        return device
    fields = mapping(extras.get(str(device.get("name"))))
    if not fields:
        return device
    made = dict(device)
    if fields.get(COMPATIBLE_ONLY_WITH) is not None and made.get(COMPATIBLE_ONLY_WITH) is None:
        made[COMPATIBLE_ONLY_WITH] = fields[COMPATIBLE_ONLY_WITH]
    groups = {
        _counter_set(draw): draw[COMPATIBILITY_GROUPS]
        for draw in mappings(fields.get("consumesCounters"))
        if draw.get(COMPATIBILITY_GROUPS)
    }
    drawn = made.get("consumesCounters")
    if groups and isinstance(drawn, list):
        made["consumesCounters"] = [
            {**draw, COMPATIBILITY_GROUPS: groups[_counter_set(draw)]}
            if isinstance(draw, dict) and _counter_set(draw) in groups and not draw.get(COMPATIBILITY_GROUPS)
            else draw
            for draw in drawn
        ]
    return made


def _fields(device: Raw) -> dict[str, Any]:
    """The fields of a device that go into the annotation."""
    drawn = [
        {"counterSet": draw.get("counterSet"), COMPATIBILITY_GROUPS: draw[COMPATIBILITY_GROUPS]}
        for draw in mappings(device.get("consumesCounters"))
        if draw.get(COMPATIBILITY_GROUPS)
    ]
    fields: dict[str, Any] = {"consumesCounters": drawn} if drawn else {}
    return (
        {**fields, COMPATIBLE_ONLY_WITH: device[COMPATIBLE_ONLY_WITH]}
        if device.get(COMPATIBLE_ONLY_WITH) is not None
        else fields
    )


def _without(device: dict[str, Any]) -> dict[str, Any]:
    """The device without the fields that a server drops."""
    made = {key: value for key, value in device.items() if key != COMPATIBLE_ONLY_WITH}
    if isinstance(made.get("consumesCounters"), list):
        made["consumesCounters"] = [
            {key: value for key, value in draw.items() if key != COMPATIBILITY_GROUPS}
            if isinstance(draw, dict)
            else draw
            for draw in made["consumesCounters"]
        ]
    return made
