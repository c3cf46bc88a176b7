"""Fields of devices that an API server drops, stored in an annotation of their slice. Source: GRP-13.

The annotation is JSON, device name -> the fields as in the device:
`{"gpu-0": {"compatibleOnlyWith": {"expression": "..."}, "consumesCounters": [{"counterSet": "gpu-0-cs",
"compatibilityGroups": ["mig"]}]}}`. If the device has the field itself, the annotation is ignored.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.api.versions.extension_shape import (
    ANNOTATION,
    COMPATIBILITY_GROUPS,
    COMPATIBLE_ONLY_WITH,
    COMPOSITE,
    CONSUMES_FROM,
    FIELD,
    INCLUDES,
    check_counter_sets,
    check_devices,
    counter_set_of,
    extensions,
)
from reconciler.api.versions.shapes import Raw, mapping, mappings

_TREE = (COMPOSITE, CONSUMES_FROM)
"""Keys that make a device part of a tree"""


def has_trees(raw: Raw, subject: str) -> bool:
    """Whether the annotation or flat devices name sources. Raises Malformed if the annotation is invalid."""
    annotated = any(key in fields for fields in extensions(raw, subject).values() for key in _TREE)
    return annotated or names_sources(mapping(raw.get("spec")))


def names_sources(spec: Raw) -> bool:
    """Whether flat devices have `consumesCapacityFrom`, which no released version knows."""
    return any(CONSUMES_FROM in device for device in mappings(spec.get("devices")))


def with_trees(raw: Raw, subject: str) -> Raw:
    """A slice whose devices all have the shape `composite`, with `includes` and `consumesCapacityFrom` of the
    annotation, which keeps the other fields. For a slice that has trees; its devices may be flat.
    """
    extras = extensions(raw, subject)
    check_devices(raw, extras, subject)
    devices = [_composite(device, mapping(extras.get(str(device.get("name"))))) for device in _devices(raw)]
    rest = {
        name: kept
        for name, fields in extras.items()
        if (kept := {key: value for key, value in fields.items() if key not in _TREE})
    }
    metadata = dict(raw["metadata"])
    annotations = dict(mapping(metadata.get("annotations")))
    annotations.pop(ANNOTATION, None)
    if rest:
        annotations[ANNOTATION] = json.dumps(rest, separators=(",", ":"))
    spec = {**raw["spec"], "devices": devices}
    return {**raw, "metadata": {**metadata, "annotations": annotations}, "spec": spec}


def _composite(device: Raw, fields: Raw) -> Raw:
    kind = next((kind for kind in (COMPOSITE, "basic") if isinstance(device.get(kind), Mapping)), None)
    own = device[kind] if kind else {key: value for key, value in device.items() if key != "name"}
    tree = {**mapping(fields.get(COMPOSITE))}
    if CONSUMES_FROM in fields:
        tree[CONSUMES_FROM] = fields[CONSUMES_FROM]
    missing = {
        key: tree[key] for key in (INCLUDES, CONSUMES_FROM) if tree.get(key) is not None and key not in own
    }
    return {"name": device.get("name"), COMPOSITE: {**own, **missing}}


def _devices(raw: Raw) -> list[Raw]:
    return mappings(mapping(raw.get("spec")).get("devices"))


def with_annotated_fields(raw: Raw, subject: str) -> Raw:
    """A slice with the fields of its annotation in its devices. Raises Malformed if that is invalid."""
    extras = extensions(raw, subject)
    check_devices(raw, extras, subject)
    check_counter_sets(raw, extras, subject)
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
    extras = extensions(raw, "slice")
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
    """The parts of a slice's annotation without effect, because the device has the field, one line each.

    Takes a slice in the shape of v1. Raises Malformed for an invalid annotation.
    """
    extras = extensions(raw, str(mapping(raw.get("metadata")).get("name") or "slice"))
    devices = {device.get("name"): device for device in mappings(mapping(raw.get("spec")).get("devices"))}
    return [line for name, fields in extras.items() for line in _conflicts(name, devices[name], fields)]


def _conflicts(name: str, device: Raw, fields: Raw) -> Iterator[str]:
    stated, own = fields.get(COMPATIBLE_ONLY_WITH), device.get(COMPATIBLE_ONLY_WITH)
    if stated is not None and own is not None and stated != own:
        what = f"{COMPATIBLE_ONLY_WITH} differs between the device and {FIELD}"
        yield f"device {name}: {what}; the device's is used"
    drawn = {counter_set_of(draw): draw for draw in mappings(device.get("consumesCounters"))}
    for draw in mappings(fields.get("consumesCounters")):
        counter_set, groups = counter_set_of(draw), draw.get(COMPATIBILITY_GROUPS)
        if groups and (own := drawn[counter_set].get(COMPATIBILITY_GROUPS)) and set(own) != set(groups):
            what = f"{COMPATIBILITY_GROUPS} differs between the device and {FIELD}"
            yield f"device {name}, counter set {counter_set}: {what}; the device's is used"


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
        counter_set_of(draw): draw[COMPATIBILITY_GROUPS]
        for draw in mappings(fields.get("consumesCounters"))
        if draw.get(COMPATIBILITY_GROUPS)
    }
    drawn = made.get("consumesCounters")
    if groups and isinstance(drawn, list):
        made["consumesCounters"] = [
            {**draw, COMPATIBILITY_GROUPS: groups[counter_set_of(draw)]}
            if isinstance(draw, dict)
            and counter_set_of(draw) in groups
            and not draw.get(COMPATIBILITY_GROUPS)
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
