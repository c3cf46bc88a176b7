"""Attributes, capacities and counters that are written once and included. Source: rules MIX-1, MIX-2, MIX-5.

Mixins apply in the order in which they are listed, later ones win, and what the includer itself has wins
over all of them. They do not nest and do not reach beyond their slice.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.errors import Malformed
from reconciler.legacy.amounts import under_value
from reconciler.legacy.shapes import Raw, mapping, mappings, references

MAX_INCLUDES = 8

DEVICE_FIELDS = ("attributes", "capacity")
COUNTER_FIELDS = ("counters",)

Mixins = Mapping[str, Raw]
"""Name -> what including it brings"""


def named(entries: Any, subject: str, field: str, wrapper: str = "") -> Mixins:
    """Mixins by name; where `wrapper` is a key of one, what it brings is below that."""
    found: dict[str, Raw] = {}
    for number, entry in enumerate(mappings(entries)):
        name = entry.get("name")
        if not isinstance(name, str) or not name:
            raise Malformed(subject, f"{field}[{number}].name", "must be a string")
        if name in found:
            raise Malformed(subject, f"{field}[{number}].name", f"two mixins are named {name}")
        found[name] = mapping(entry[wrapper]) if wrapper in entry else entry
    return found


def included(holder: Raw, mixins: Mixins, fields: Sequence[str], subject: str, where: str) -> dict[str, Any]:
    """`holder` without `includes`, with what they bring. Raises Malformed for a mixin that is not there."""
    names = references(holder.get("includes"), subject, f"{where}.includes")
    if len(names) > MAX_INCLUDES:
        raise Malformed(
            subject, f"{where}.includes", f"names {len(names)} mixins, at most {MAX_INCLUDES} are allowed"
        )
    for number, name in enumerate(names):
        if name not in mixins:
            known = f"; it has {', '.join(mixins)}" if mixins else ""
            reason = f"the slice has no such mixin as {name}{known}"
            raise Malformed(subject, f"{where}.includes[{number}]", reason[:300])
    made = {key: value for key, value in holder.items() if key != "includes"}
    for field in fields:
        parts = [*(mixins[name].get(field) for name in names), holder.get(field)]
        if any(part is not None for part in parts):
            made[field] = _merged(parts, field)
    return made


def _merged(parts: Sequence[Any], field: str) -> Any:
    own = parts[-1]
    if own is not None and not isinstance(own, Mapping):
        return own  # left for typing to refuse
    merged: dict[str, Any] = {}
    for part in parts:
        merged |= mapping(part)
    return merged if field == "attributes" else under_value(merged)


def uses(spec: Raw) -> bool:
    """Whether a slice has mixins as KEP-5234 words them, or includes any."""
    if "mixins" in spec:
        return True
    devices = mappings(spec.get("devices"))
    draws = [draw for device in devices for draw in mappings(device.get("consumesCounters"))]
    return any("includes" in holder for holder in (*devices, *draws, *mappings(spec.get("sharedCounters"))))


def expanded(spec: Raw, subject: str) -> dict[str, Any]:
    """The spec of a slice with flat devices, without mixins, everything written out."""
    given = mapping(spec.get("mixins"))
    of_device = named(given.get("device"), subject, "spec.mixins.device", "basic")
    of_draw = named(given.get("deviceCounterConsumption"), subject, "spec.mixins.deviceCounterConsumption")
    of_set = named(given.get("counterSet"), subject, "spec.mixins.counterSet")
    made = {key: value for key, value in spec.items() if key != "mixins"}
    devices, sets = spec.get("devices"), spec.get("sharedCounters")
    if isinstance(devices, list):
        made["devices"] = [
            _device(device, of_device, of_draw, subject, f"spec.devices[{number}]")
            for number, device in enumerate(devices)
        ]
    if isinstance(sets, list):
        made["sharedCounters"] = [
            included(mapping(counters), of_set, COUNTER_FIELDS, subject, f"spec.sharedCounters[{number}]")
            for number, counters in enumerate(sets)
        ]
    return made


def _device(device: Any, of_device: Mixins, of_draw: Mixins, subject: str, where: str) -> Any:
    if not isinstance(device, Mapping):
        return device
    made = included(device, of_device, DEVICE_FIELDS, subject, where)
    # The proposal spelled the list in the singular before it was split off.
    draws = made.pop("consumesCounter", None)
    draws = made.get("consumesCounters", draws)
    if isinstance(draws, list):
        made["consumesCounters"] = [
            included(mapping(draw), of_draw, COUNTER_FIELDS, subject, f"{where}.consumesCounters[{number}]")
            for number, draw in enumerate(draws)
        ]
    return made
