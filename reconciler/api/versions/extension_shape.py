"""What the annotation `dra-reconciler.io/device-extensions` may contain. Source: GRP-13.

Whatever is not known is rejected, with the whole slice: its devices must not be allocated without rules that
somebody wrote down for them.
"""

import json
from collections.abc import Iterable, Mapping
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
    return {name: _fields(name, fields, subject) for name, fields in found.items()}


class _Repeated(ValueError):
    """A key that occurs twice in one object: JSON would keep the last one silently."""


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _Repeated(next(key for key in keys if keys.count(key) > 1))
    return made


def _fields(name: str, fields: Any, subject: str) -> Raw:
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
