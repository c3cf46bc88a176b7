"""Mixins: attributes, capacities and counters, defined once and included. Source: MIX-1, MIX-2, MIX-5.

Mixins apply in their listed order. A later mixin overrides an earlier one, and the fields of the includer
override all mixins. Mixins do not nest, and are valid only in their slice.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.api.versions.amounts import under_value
from reconciler.api.versions.shapes import Raw, mapping, mappings, references
from reconciler.errors import Malformed

MAX_INCLUDES = 8

DEVICE_FIELDS = ("attributes", "capacity")
COUNTER_FIELDS = ("counters",)

Mixins = Mapping[str, Raw]
"""Name -> the fields that it adds"""


def mixins_by_name(entries: Any, subject: str, field: str, wrapper: str = "") -> Mixins:
    """Mixins by name; if a mixin has the key `wrapper`, its fields are below that key."""
    found: dict[str, Raw] = {}
    for number, entry in enumerate(mappings(entries)):
        name = entry.get("name")
        if not isinstance(name, str) or not name:
            raise Malformed(subject, f"{field}[{number}].name", "must be a string")
        if name in found:
            raise Malformed(subject, f"{field}[{number}].name", f"two mixins are named {name}")
        found[name] = mapping(entry[wrapper]) if wrapper in entry else entry
    return found


def expand_includes(
    holder: Raw, mixins: Mixins, fields: Sequence[str], subject: str, where: str
) -> dict[str, Any]:
    """`holder` with the mixins of `includes` merged in. Raises Malformed for an unknown mixin."""
    names = references(holder.get("includes"), subject, f"{where}.includes")
    if len(names) > MAX_INCLUDES:
        raise Malformed(
            subject, f"{where}.includes", f"names {len(names)} mixins; at most {MAX_INCLUDES} are allowed"
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
        return own  # validation rejects it later
    merged: dict[str, Any] = {}
    for part in parts:
        merged |= mapping(part)
    return merged if field == "attributes" else under_value(merged)


def uses(spec: Raw) -> bool:
    """Whether a slice has or includes mixins in the shape of KEP-5234."""
    if "mixins" in spec:
        return True
    devices = mappings(spec.get("devices"))
    draws = [draw for device in devices for draw in mappings(device.get("consumesCounters"))]
    return any("includes" in holder for holder in (*devices, *draws, *mappings(spec.get("sharedCounters"))))


def expanded(spec: Raw, subject: str) -> dict[str, Any]:
    """The spec of a slice with flat devices, with all mixins expanded."""
    given = mapping(spec.get("mixins"))
    of_device = mixins_by_name(given.get("device"), subject, "spec.mixins.device", "basic")
    of_draw = mixins_by_name(
        given.get("deviceCounterConsumption"), subject, "spec.mixins.deviceCounterConsumption"
    )
    of_set = mixins_by_name(given.get("counterSet"), subject, "spec.mixins.counterSet")
    made = {key: value for key, value in spec.items() if key != "mixins"}
    devices, sets = spec.get("devices"), spec.get("sharedCounters")
    if isinstance(devices, list):
        made["devices"] = [
            _device(device, of_device, of_draw, subject, f"spec.devices[{number}]")
            for number, device in enumerate(devices)
        ]
    if isinstance(sets, list):
        made["sharedCounters"] = [
            expand_includes(
                mapping(counters), of_set, COUNTER_FIELDS, subject, f"spec.sharedCounters[{number}]"
            )
            for number, counters in enumerate(sets)
        ]
    return made


def _device(device: Any, of_device: Mixins, of_draw: Mixins, subject: str, where: str) -> Any:
    if not isinstance(device, Mapping):
        return device
    made = expand_includes(device, of_device, DEVICE_FIELDS, subject, where)
    # An early version of the proposal used the singular.
    draws = made.pop("consumesCounter", None)
    draws = made.get("consumesCounters", draws)
    if isinstance(draws, list):
        made["consumesCounters"] = [
            expand_includes(
                mapping(draw), of_draw, COUNTER_FIELDS, subject, f"{where}.consumesCounters[{number}]"
            )
            for number, draw in enumerate(draws)
        ]
    return made
