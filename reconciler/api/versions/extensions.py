"""Fields of devices that an API server drops, stored in an annotation of their slice. Source: GRP-13.

The annotation is JSON, device name -> the fields as in the device: `{"gpu-0": {"compatibleOnlyWith":
{"expression": "..."}, "consumesCounters": [{"counterSet": "gpu-0-cs", "compatibilityGroups": ["mig"]}]}}`.
If the device has the field itself, the annotation is ignored.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from reconciler.api.versions.shapes import Raw, mapping, mappings, references
from reconciler.errors import Malformed

ANNOTATION = "dra-reconciler.io/device-extensions"
FIELD = f"metadata.annotations[{ANNOTATION}]"

MAX_LENGTH = 2**20
"""Characters. The API limits all annotations of an object to a quarter of it."""

COMPATIBLE_ONLY_WITH, COMPATIBILITY_GROUPS = "compatibleOnlyWith", "compatibilityGroups"
COMPOSITE, CONSUMES_COUNTERS = "composite", "consumesCounters"
INCLUDES, CONSUMES_FROM = "includes", "consumesCapacityFrom"
KEYS = (COMPATIBLE_ONLY_WITH, CONSUMES_COUNTERS, COMPOSITE, CONSUMES_FROM)


def extensions(raw: Raw, subject: str) -> dict[str, Raw]:
    """Device -> its extra fields, without those that are null. Raises Malformed for anything unknown."""
    text = mapping(mapping(raw.get("metadata")).get("annotations")).get(ANNOTATION)
    if not text:
        return {}
    if len(text) > MAX_LENGTH:
        raise Malformed(subject, FIELD, f"has {len(text)} characters; at most {MAX_LENGTH} are allowed")
    try:
        found = json.loads(text, object_pairs_hook=_without_repetition)
    except RecursionError as exc:
        raise Malformed(subject, FIELD, "is nested too deeply") from exc
    except _Repeated as exc:
        raise Malformed(subject, FIELD, f"has the key {exc} twice in one object; remove one") from exc
    except (TypeError, ValueError) as exc:
        raise Malformed(subject, FIELD, f"is not JSON: {exc}") from exc
    if not isinstance(found, dict):
        raise Malformed(subject, FIELD, "must be an object: device name -> object of fields")
    return {name: _checked_fields(name, fields, subject) for name, fields in found.items()}


class _Repeated(ValueError):
    """A key that occurs twice in one object: JSON would keep the last one silently."""


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _Repeated(next(key for key in keys if keys.count(key) > 1))
    return made


def _checked_fields(name: str, fields: Any, subject: str) -> Raw:
    where = f"{FIELD}: device {name}"
    _check_keys(fields, KEYS, subject, where)
    made = {key: value for key, value in fields.items() if value is not None}
    for key, value in made.items():
        _check(key, value, subject, f"{where}.{key}")
    if CONSUMES_FROM in made and CONSUMES_FROM in mapping(made.get(COMPOSITE)):
        raise Malformed(
            subject, where, f"has {CONSUMES_FROM} twice; remove it, or {COMPOSITE}.{CONSUMES_FROM}"
        )
    return made


def _check(key: str, value: Any, subject: str, where: str) -> None:
    match key:
        case "compatibleOnlyWith":
            _check_keys(value, ("expression",), subject, where)
            if not isinstance(value.get("expression"), str):
                raise Malformed(subject, f"{where}.expression", "must be a string with a CEL expression")
        case "consumesCounters":
            _check_draws(value, subject, where)
        case "composite":
            _check_keys(value, (INCLUDES, CONSUMES_FROM), subject, where)
            for field in (INCLUDES, CONSUMES_FROM):
                _check_references(value.get(field), subject, f"{where}.{field}")
        case _:
            _check_references(value, subject, where)


def _check_draws(value: Any, subject: str, where: str) -> None:
    if not isinstance(value, list):
        raise Malformed(subject, where, "must be a list of objects with counterSet and compatibilityGroups")
    seen: set[str] = set()
    for number, draw in enumerate(value):
        at = f"{where}[{number}]"
        _check_keys(draw, ("counterSet", COMPATIBILITY_GROUPS), subject, at)
        name, groups = draw.get("counterSet"), draw.get(COMPATIBILITY_GROUPS)
        if not isinstance(name, str) or not name:
            raise Malformed(subject, f"{at}.counterSet", "must be the name of a counter set")
        if name in seen:
            raise Malformed(subject, f"{at}.counterSet", f"names {name} a second time; merge the two entries")
        seen.add(name)
        if groups is not None and not (isinstance(groups, list) and all(isinstance(g, str) for g in groups)):
            raise Malformed(subject, f"{at}.{COMPATIBILITY_GROUPS}", "must be a list of names")


def _check_references(value: Any, subject: str, where: str) -> None:
    references(value, subject, where)
    for number, entry in enumerate(value or ()):
        if isinstance(entry, dict):
            _check_keys(entry, ("name",), subject, f"{where}[{number}]")


def _check_keys(value: Any, known: Iterable[str], subject: str, where: str) -> None:
    if not isinstance(value, dict):
        raise Malformed(subject, where, f"must be an object with {' or '.join(known)}")
    for key in value:
        if key not in known:
            raise Malformed(subject, where, f"has the unknown key {key}; use only {', '.join(known)}")


def check_devices(raw: Raw, found: Mapping[str, Raw], subject: str) -> None:
    """Raise Malformed for a device that the slice does not have."""
    names = {str(device.get("name")) for device in mappings(mapping(raw.get("spec")).get("devices"))}
    for name in found:
        if name not in names:
            what = f"names device {name}, which the slice does not have; fix the name, or remove it"
            raise Malformed(subject, FIELD, what)


def check_counter_sets(raw: Raw, found: Mapping[str, Raw], subject: str) -> None:
    """Raise Malformed for a counter set that a device does not draw from. Takes the shape of v1."""
    drawn: dict[str, set[str]] = {}
    for device in mappings(mapping(raw.get("spec")).get("devices")):
        sets = drawn.setdefault(str(device.get("name")), set())
        sets.update(counter_set_of(draw) for draw in mappings(device.get(CONSUMES_COUNTERS)))
    for name, fields in found.items():
        for draw in mappings(fields.get(CONSUMES_COUNTERS)):
            if draw["counterSet"] not in drawn.get(name, ()):
                what = f"names counter set {draw['counterSet']}, which the device does not draw from"
                where = f"{FIELD}: device {name}.{CONSUMES_COUNTERS}"
                raise Malformed(subject, where, f"{what}; fix the name, or remove the entry")


def counter_set_of(draw: Raw) -> str:
    """The name of the counter set. An invalid one is rejected later, when the slice is validated."""
    return str(draw.get("counterSet"))


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
    return _annotated(raw, rest, devices)


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
        fields = _fields_for_annotation(mapping(merged))
        if fields:
            name = str(merged.get("name"))
            extras[name] = {**extras.get(name, {}), **fields}
        made.append(_without(merged) if isinstance(merged, dict) else merged)
    if not extras:
        return raw
    return _annotated(raw, extras, made)


def _annotated(raw: Raw, extras: Mapping[str, Any], devices: list[Raw]) -> Raw:
    """A slice with other devices, and other fields in its annotation."""
    metadata = mapping(raw.get("metadata"))
    annotations = dict(mapping(metadata.get("annotations")))
    annotations.pop(ANNOTATION, None)
    if extras:
        annotations[ANNOTATION] = json.dumps(extras, separators=(",", ":"))
    spec = {**raw["spec"], "devices": devices}
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


def _fields_for_annotation(device: Raw) -> dict[str, Any]:
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
