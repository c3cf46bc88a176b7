"""One ResourceSlice as columns. Built once when the slice arrives; pools and fleets put blocks together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from kernels.types import Codes, Mask
from reconciler.inventory.vocabulary import Binding, CapacitySlot, Lexicon, Name, qualified, value_of
from reconciler.objects.semantics import LIST_ATTRIBUTES, Semantics
from reconciler.objects.slices import Device, ResourceSlice

T = TypeVar("T")

LISTS = ("ints", "bools", "strings", "versions")

COLUMNS = ("driver", "node", "selector", "taints", "shape", "binding", "operations")
"""The coded columns every block has, besides attributes and capacity."""


@dataclass(frozen=True, slots=True)
class Block:
    """Columns of one slice; n is its number of devices, all codes are of one `Lexicon`."""

    slice: ResourceSlice
    names: tuple[str, ...]
    codes: dict[str, Codes]
    """Column of COLUMNS -> (n,); -1 where a device has none."""
    attributes: dict[Name, Codes]
    """(n,) each"""
    capacity: dict[Name, Codes]
    """(n,) each"""
    anywhere: Mask
    """(n,) reachable from all nodes"""
    shared: Mask
    """(n,) allows multiple allocations"""
    unreadable: Mask
    """(n,) CEL cannot look at the device (CEL-6)"""
    binds: Mask
    """(n,) allocating it ties the claim to the node"""
    sets: Codes
    """(n, k) names of the counter sets that a device draws from, coded; -1 for none"""
    draws: Codes
    """(n, k) what it draws there, coded"""

    selector: int
    """The selector of the slice itself, coded; -1 if it has none"""
    waits: bool
    """Whether a device has binding conditions (POOL-14)"""

    @property
    def generation(self) -> int:
        return self.slice.spec.pool.generation


def build(source: ResourceSlice, words: Lexicon, rules: Semantics) -> Block:
    """The columns of one slice. Reads every device once; adds new values to the lexicon."""
    spec = source.spec
    devices = spec.devices
    count = len(devices)
    attributes: dict[Name, Codes] = {}
    capacity: dict[Name, Codes] = {}
    unreadable = np.zeros(count, dtype=np.bool_)
    for row, device in enumerate(devices):
        unreadable[row] = not _describe(device, row, spec.driver, count, attributes, words, rules)
        for key, amount in _unqualified_first(device.capacity):
            column = capacity.setdefault(qualified(key, spec.driver), _absent(count))
            column[row] = words.amount(qualified(key, spec.driver)).code(amount.value)
    sets, draws = _consumption(devices, words)
    return Block(
        slice=source,
        names=tuple(device.name for device in devices),
        codes={
            "driver": np.full(count, words.drivers.code(spec.driver), dtype=np.int32),
            **_place(source, words),
            "taints": _codes(words.taints.code(d.taints) if d.taints else -1 for d in devices),
            "shape": _codes(words.shapes.code(_shape(d)) if d.capacity else -1 for d in devices),
            "binding": _codes(
                words.bindings.code(Binding(d.binding_conditions, d.binding_failure_conditions))
                if d.binding_conditions or d.binding_failure_conditions
                else -1
                for d in devices
            ),
            "operations": np.full(
                count,
                words.operations.code(spec.skip_node_operations) if spec.skip_node_operations else -1,
                dtype=np.int32,
            ),
        },
        attributes=attributes,
        capacity=capacity,
        anywhere=_anywhere(source),
        shared=np.array([d.allow_multiple_allocations is True for d in devices], dtype=np.bool_),
        unreadable=unreadable,
        binds=np.array([d.binds_to_node is True for d in devices], dtype=np.bool_),
        sets=sets,
        draws=draws,
        selector=words.selectors.code(spec.node_selector) if spec.node_selector is not None else -1,
        waits=any(device.binding_conditions for device in devices),
    )


def _describe(
    device: Device,
    row: int,
    driver: str,
    count: int,
    attributes: dict[Name, Codes],
    words: Lexicon,
    rules: Semantics,
) -> bool:
    """Enter the attributes of one device; False if one of them makes it unreadable for CEL."""
    readable = True
    lists_fail = rules.old and not rules.has(LIST_ATTRIBUTES)
    for key, attribute in _unqualified_first(device.attributes):
        tag, value, fine = value_of(attribute)
        readable &= fine and not (lists_fail and any(getattr(attribute, name) is not None for name in LISTS))
        name = qualified(key, driver)
        column = attributes.setdefault(name, _absent(count))
        column[row] = words.attribute(name).code(value, tag)
    return readable


def _unqualified_first(entries: Mapping[str, T]) -> Sequence[tuple[str, T]]:
    """Where a device spells one name both ways, the qualified one is entered last and wins (CEL-3)."""
    if any("/" in key for key in entries):
        return sorted(entries.items(), key=lambda entry: "/" in entry[0])
    return tuple(entries.items())


def _shape(device: Device) -> tuple[CapacitySlot, ...]:
    return tuple(
        CapacitySlot(key, device.capacity[key].value, device.capacity[key].request_policy)
        for key in sorted(device.capacity)
    )


def _place(source: ResourceSlice, words: Lexicon) -> dict[str, Codes]:
    """On which node, or by which selector, each device can be reached."""
    spec = source.spec
    if spec.per_device_node_selection:
        return {
            "node": _codes(words.nodes.code(d.node_name) if d.node_name else -1 for d in spec.devices),
            "selector": _codes(
                words.selectors.code(d.node_selector) if d.node_selector and _selects(d) else -1
                for d in spec.devices
            ),
        }
    node = words.nodes.code(spec.node_name) if spec.node_name else -1
    selector = -1
    if node < 0 and not spec.all_nodes and spec.node_selector is not None:
        selector = words.selectors.code(spec.node_selector)
    count = len(spec.devices)
    return {
        "node": np.full(count, node, dtype=np.int32),
        "selector": np.full(count, selector, dtype=np.int32),
    }


def _selects(device: Device) -> bool:
    return not device.node_name and not device.all_nodes


def _anywhere(source: ResourceSlice) -> Mask:
    spec = source.spec
    if spec.per_device_node_selection:
        return np.array([d.all_nodes is True and not d.node_name for d in spec.devices], dtype=np.bool_)
    return np.full(len(spec.devices), spec.all_nodes is True and not spec.node_name, dtype=np.bool_)


def _consumption(devices: Sequence[Device], words: Lexicon) -> tuple[Codes, Codes]:
    width = max((len(d.consumes_counters) for d in devices), default=0)
    sets = np.full((len(devices), width), -1, dtype=np.int32)
    draws = np.full((len(devices), width), -1, dtype=np.int32)
    for row, device in enumerate(devices):
        for k, (name, amounts) in enumerate(_draws_of(device).items()):
            sets[row, k] = words.sets.code(name)
            draws[row, k] = words.draws.code(tuple(sorted(amounts.items())))
    return sets, draws


def _draws_of(device: Device) -> dict[str, dict[str, int]]:
    """Counter set -> counter -> billionths. A set that is named twice is drawn from twice."""
    found: dict[str, dict[str, int]] = {}
    for consumption in device.consumes_counters:
        amounts = found.setdefault(consumption.counter_set, {})
        for name, counter in consumption.counters.items():
            amounts[name] = amounts.get(name, 0) + counter.value.nanos
    return found


def _absent(count: int) -> Codes:
    return np.full(count, -1, dtype=np.int32)


def _codes(values: Iterable[int]) -> Codes:
    return np.fromiter(values, dtype=np.int32)
