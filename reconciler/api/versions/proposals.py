"""Converts slices in the shapes of proposals that no server ever served.

They have mixins (MIX-1, MIX-2, MIX-5), composite devices, amounts beside or under `quantity`, and versions
that are not semver. Mixins apply in their listed order. A later mixin overrides an earlier one, and the
fields of the includer override all mixins. Mixins do not nest, and are valid only in their slice. In the
first revision of KEP-4815, devices are flat, without mixins. Source:
docs/reference/rules/composite-devices.md.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from reconciler.api.objects.quantity import Quantity
from reconciler.api.validation.fields import is_dns_label
from reconciler.api.versions import consumption
from reconciler.api.versions.shapes import Raw, mapping, mappings, references
from reconciler.errors import Malformed


def with_value_keys(spec: Raw) -> dict[str, Any]:
    """The spec of a slice with flat devices, every capacity and counter under `value`."""
    made = dict(spec)
    if isinstance(spec.get("devices"), list):
        made["devices"] = [_with_amounts(device) for device in spec["devices"]]
    if isinstance(spec.get("sharedCounters"), list):
        made["sharedCounters"] = [
            _with_amounts_at(counters, "counters") for counters in spec["sharedCounters"]
        ]
    return made


def under_value(amounts: Any) -> Any:
    """A map of amounts, each under `value`."""
    if not isinstance(amounts, Mapping) or all(map(_is_current, amounts.values())):
        return amounts
    return {key: _amount(value) for key, value in amounts.items()}


def _is_current(value: Any) -> bool:
    return value.__class__ is dict and "value" in value


def _with_amounts(device: Any) -> Any:
    device = _with_amounts_at(device, "capacity")
    draws = mapping(device).get("consumesCounters")
    if isinstance(draws, list):
        return {**device, "consumesCounters": [_with_amounts_at(draw, "counters") for draw in draws]}
    return device


def _with_amounts_at(holder: Any, key: str) -> Any:
    if not isinstance(holder, Mapping) or not isinstance(holder.get(key), Mapping):
        return holder
    return {**holder, key: under_value(holder[key])}


def _amount(value: Any) -> Any:
    if isinstance(value, Mapping):
        if "quantity" in value and "value" not in value:
            rest = {key: part for key, part in value.items() if key != "quantity"}
            return {"value": value["quantity"], **rest}
        return value
    return {"value": value} if isinstance(value, str | int | float) and not isinstance(value, bool) else value


MAX_INCLUDES = 8

NO_LABEL = "must be a DNS label: at most 63 lower case letters, digits and '-'"
DEVICE_FIELDS = ("attributes", "capacity")
COUNTER_FIELDS = ("counters",)

Mixins = Mapping[str, Raw]
"""Name -> the fields that it adds"""


def mixins_by_name(
    entries: Any, subject: str, field: str, wrapper: str = "", *, wrapped: bool = False
) -> Mixins:
    """Mixins by name; if a mixin has the key `wrapper`, its fields are below that key.

    wrapped  whether it must have that key, and no other type
    """
    found: dict[str, Raw] = {}
    for number, entry in enumerate(mappings(entries)):
        name, where = entry.get("name"), f"{field}[{number}]"
        # The text wants DNS labels, but names profiles such as 1g.5gb in its own examples.
        if not isinstance(name, str) or not is_dns_label(name.replace(".", "-")):
            raise Malformed(subject, f"{where}.name", NO_LABEL)
        if name in found:
            raise Malformed(subject, f"{where}.name", f"two mixins are named {name}")
        others = [key for key in entry if key not in ("name", wrapper)]
        if wrapped and (others or not isinstance(entry.get(wrapper), Mapping)):
            beside = f", and {', '.join(map(str, others))}" if others else ""
            raise Malformed(
                subject, where, f"must have exactly one type, {wrapper}; it has name{beside}"[:300]
            )
        found[name] = mapping(entry[wrapper]) if wrapper in entry else entry
        if "includes" in found[name]:
            inside = f"{where}.{wrapper}" if wrapper in entry else where
            reason = "a mixin cannot include mixins; list them in the devices"
            raise Malformed(subject, f"{inside}.includes", reason)
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
            _expanded_device(device, of_device, of_draw, subject, f"spec.devices[{number}]")
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


def _expanded_device(device: Any, of_device: Mixins, of_draw: Mixins, subject: str, where: str) -> Any:
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


_LOOSE = re.compile(r"(?P<numbers>[0-9]+(\.[0-9]+){0,2})(?P<rest>[-+].*)?")


def with_semver(spec: Raw) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The spec of a slice with flat devices and every version as semver; and the changes, `a as b`.

    Only for shapes that no server ever served: a server would have rejected such versions.
    """
    if not isinstance(spec.get("devices"), list):
        return dict(spec), ()
    devices = [_with_semver(device) for device in spec["devices"]]
    changes = (
        change
        for before, after in zip(spec["devices"], devices, strict=True)
        for change in _changes(before, after)
    )
    return {**spec, "devices": devices}, tuple(dict.fromkeys(changes))


def _with_semver(device: Any) -> Any:
    attributes = mapping(device).get("attributes")
    if not isinstance(attributes, Mapping):
        return device
    return {**device, "attributes": {key: _attribute(value) for key, value in attributes.items()}}


def _attribute(value: Any) -> Any:
    version = mapping(value).get("version")
    match = _LOOSE.fullmatch(version) if isinstance(version, str) else None
    if match is None:
        return value
    numbers = [str(int(number)) for number in match["numbers"].split(".")]
    return {**value, "version": ".".join([*numbers, "0", "0"][:3]) + (match["rest"] or "")}


def _changes(before: Any, after: Any) -> Iterator[str]:
    now = mapping(mapping(after).get("attributes"))
    for key, value in mapping(mapping(before).get("attributes")).items():
        if value != now[key]:
            yield f"{value['version']} as {now[key]['version']}"


MAX_COUNTERS = 128
MAX_SETS = 8
"""Limits of the inventory: counters of a set, sets of a device"""


def is_first_revision(spec: Raw) -> bool:
    """Whether a slice has this shape."""
    return "deviceMixins" in spec or (
        "mixins" not in spec and any("composite" in device for device in mappings(spec.get("devices")))
    )


def flattened(spec: Raw, subject: str) -> dict[str, Any]:
    """The spec with flat devices that draw from counters. Raises Malformed for an invalid reference."""
    mixins = mixins_by_name(spec.get("deviceMixins"), subject, "spec.deviceMixins", "composite", wrapped=True)
    devices: list[dict[str, Any]] = []
    members: list[consumption.Member] = []
    driver = str(spec.get("driver"))
    for number, device in enumerate(mappings(spec.get("devices"))):
        where = f"spec.devices[{number}]"
        flat, sources = _flat_device(device, mixins, subject, where)
        devices.append(flat)
        members.append(_member(flat, sources, driver, subject, where))
    names = [member.name for member in members]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise Malformed(subject, "spec.devices", f"two devices are named {twice}")
    sets, draws = _counters(consumption.Forest(members, subject), subject)
    made = {key: value for key, value in spec.items() if key != "deviceMixins"}
    made["devices"] = [
        {**device, "consumesCounters": [*mappings(device.get("consumesCounters")), *draws[name]]}
        if name in draws
        else device
        for name, device in zip(names, devices, strict=True)
    ]
    if sets:
        made["sharedCounters"] = [*mappings(spec.get("sharedCounters")), *sets]
    return made


def _flat_device(device: Raw, mixins: Mixins, subject: str, where: str) -> tuple[dict[str, Any], list[str]]:
    """A device with its mixins expanded, and the names of its sources. Raises Malformed by CCF-7."""
    kinds = [kind for kind in ("basic", "composite") if device.get(kind) is not None]
    if len(kinds) != 1:
        found = "both" if kinds else "neither"
        raise Malformed(subject, where, f"has {found} of basic and composite; set exactly one")
    (kind,) = kinds
    if kind == "basic" and "includes" in mapping(device[kind]):
        reason = "only a composite device includes mixins; write `composite` in place of `basic`"
        raise Malformed(subject, f"{where}.basic.includes", reason)
    flat = expand_includes(mapping(device[kind]), mixins, DEVICE_FIELDS, subject, f"{where}.{kind}")
    sources = references(
        flat.pop("consumesCapacityFrom", None), subject, f"{where}.{kind}.consumesCapacityFrom"
    )
    if not isinstance(device.get("name"), str):
        raise Malformed(subject, f"{where}.name", "must be a string")
    flat = {"name": device["name"], **flat}
    if "capacity" in flat:
        flat["capacity"] = under_value(flat["capacity"])
    return flat, sources


def _member(flat: Raw, sources: Iterable[str], driver: str, subject: str, where: str) -> consumption.Member:
    capacity: dict[str, Quantity] = {}
    for key, amount in mapping(flat.get("capacity")).items():
        value = mapping(amount).get("value")
        try:
            parsed = Quantity.parse(str(value))
        except ValueError as exc:
            raise Malformed(subject, f"{where}: capacity {key}", str(exc)) from exc
        if parsed.nanos < 0:
            raise Malformed(subject, f"{where}: capacity {key}", f"must not be negative, got {value}")
        # A name without a domain is in the driver's domain, so both forms mean the same capacity (V-6).
        capacity[str(key).removeprefix(f"{driver}/")] = parsed
    return consumption.Member(flat["name"], tuple(sources), capacity)


def _counters(forest: consumption.Forest, subject: str) -> tuple[list[Raw], dict[str, list[Raw]]]:
    """The counter sets of all trees, and device -> its draws from them."""
    sets: list[Raw] = []
    draws: dict[str, list[Raw]] = {}
    for tree in forest.trees():
        tallies = forest.tallies(tree)
        if len(tallies) > MAX_COUNTERS:
            tallies = consumption.drop_redundant(tallies)
        groups = [
            list(group)
            for _, group in groupby(tallies, key=lambda tally: consumption.source_of_counter(tally.name))
        ]
        packed = consumption.pack(groups, size=MAX_COUNTERS, most=MAX_SETS)
        if packed.too_many:
            device, count = next(iter(packed.too_many.items()))
            raise Malformed(
                subject,
                f"device {device}: consumesCapacityFrom",
                f"needs {count} counter sets of {MAX_COUNTERS} counters; at most {MAX_SETS} are allowed",
            )
        root = next(name for name in tree if not forest.parents[name])
        for number, members in enumerate(packed.sets):
            name = f"{root}:{number + 1}" if number else root
            sets.append({"name": name, "counters": {t.name: {"value": str(t.total)} for t in members}})
            for device, counters in _by_device(members).items():
                draws.setdefault(device, []).append({"counterSet": name, "counters": counters})
    return sets, draws


def _by_device(tallies: Iterable[consumption.CounterLimit]) -> dict[str, dict[str, Raw]]:
    found: dict[str, dict[str, Raw]] = {}
    for tally in tallies:
        for device, amount in tally.draws.items():
            found.setdefault(device, {})[tally.name] = {"value": str(amount)}
    return found
