"""Converts slices in the shape of the first revision of KEP-4815: flat devices, counters, no mixins.

No API server ever served this shape. Source: docs/reference/rules/composite-devices.md.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from reconciler.api.objects.quantity import Quantity
from reconciler.api.versions.amounts import under_value
from reconciler.api.versions.consumption_tree import Forest, Member, source_of_counter
from reconciler.api.versions.counter_limits import CounterLimit, drop_redundant, pack
from reconciler.api.versions.mixins import DEVICE_FIELDS, Mixins, expand_includes, mixins_by_name
from reconciler.api.versions.shapes import Raw, mapping, mappings, references
from reconciler.errors import Malformed

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
    mixins = mixins_by_name(spec.get("deviceMixins"), subject, "spec.deviceMixins", "composite")
    devices: list[dict[str, Any]] = []
    members: list[Member] = []
    driver = str(spec.get("driver"))
    for number, device in enumerate(mappings(spec.get("devices"))):
        where = f"spec.devices[{number}]"
        flat, sources = _device(device, mixins, subject, where)
        devices.append(flat)
        members.append(_member(flat, sources, driver, subject, where))
    names = [member.name for member in members]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise Malformed(subject, "spec.devices", f"two devices are named {twice}")
    sets, draws = _counters(Forest(members, subject), subject)
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


def _device(device: Raw, mixins: Mixins, subject: str, where: str) -> tuple[dict[str, Any], list[str]]:
    """A device with its mixins expanded, and the names of its sources. Raises Malformed by CCF-7."""
    kinds = [kind for kind in ("basic", "composite") if device.get(kind) is not None]
    if len(kinds) != 1:
        found = "both" if kinds else "neither"
        raise Malformed(subject, where, f"has {found} of basic and composite; set exactly one")
    (kind,) = kinds
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


def _member(flat: Raw, sources: Iterable[str], driver: str, subject: str, where: str) -> Member:
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
    return Member(flat["name"], tuple(sources), capacity)


def _counters(forest: Forest, subject: str) -> tuple[list[Raw], dict[str, list[Raw]]]:
    """The counter sets of all trees, and device -> its draws from them."""
    sets: list[Raw] = []
    draws: dict[str, list[Raw]] = {}
    for tree in forest.trees():
        tallies = forest.tallies(tree)
        if len(tallies) > MAX_COUNTERS:
            tallies = drop_redundant(tallies)
        groups = [
            list(group) for _, group in groupby(tallies, key=lambda tally: source_of_counter(tally.name))
        ]
        packed = pack(groups, size=MAX_COUNTERS, most=MAX_SETS)
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


def _by_device(tallies: Iterable[CounterLimit]) -> dict[str, dict[str, Raw]]:
    found: dict[str, dict[str, Raw]] = {}
    for tally in tallies:
        for device, amount in tally.draws.items():
            found.setdefault(device, {})[tally.name] = {"value": str(amount)}
    return found
