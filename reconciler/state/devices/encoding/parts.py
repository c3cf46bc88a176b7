"""The parts of devices as codes. Each part is encoded once as long as slices share it.

Reading shares parts that are spelled alike, so that a part is mostly known by being the same object.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from reconciler.api.objects.semantics import LIST_ATTRIBUTES, Semantics
from reconciler.api.objects.slices import (
    CounterConsumption,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
)
from reconciler.state.devices.encoding.interner import Interner
from reconciler.state.devices.encoding.recent import OfObjects, Recent
from reconciler.state.devices.encoding.vocabulary import (
    Binding,
    CapacitySlot,
    Name,
    Value,
    Vocabulary,
    qualified,
    value_of,
)

T = TypeVar("T")

LISTS = ("ints", "bools", "strings", "versions")

KEPT = 1 << 14
"""Parts of each sort that are remembered."""


class Coded(NamedTuple):
    """Named values of one device: attributes, or capacity."""

    names: tuple[Name, ...]
    """One object for all devices that have the same names in the same order"""
    codes: tuple[int, ...]
    """Of the values, in the same order"""


class Attributes(NamedTuple):
    """What a device is."""

    coded: Coded
    readable: bool
    """Whether CEL can look at the device (CEL-6)"""


class Capacity(NamedTuple):
    """What a device has."""

    coded: Coded
    shape: int
    """Amounts with the policies for shares, coded; -1 for a device without any"""


class Consumption(NamedTuple):
    """What a device draws."""

    sets: tuple[int, ...]
    """Names of counter sets, coded"""
    draws: tuple[int, ...]
    """What is drawn from each, coded"""
    grouped: bool
    """Whether it declares compatibility groups"""


class Header(NamedTuple):
    """What the columns of a slice hold behind those that every slice has: attributes, then capacities."""

    attributes: tuple[Name, ...]
    capacity: tuple[Name, ...]


class Names:
    """The names of devices in order. Equal ones are one object, since machines of one make have the same."""

    __slots__ = ("_rows", "all")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.all = names
        self._rows: dict[str, tuple[int, ...]] = {}
        for row, name in enumerate(names):
            self._rows[name] = (*self._rows.get(name, ()), row)

    @property
    def has_twins(self) -> bool:
        return len(self._rows) < len(self.all)

    def rows_of(self, name: str) -> tuple[int, ...]:
        """The positions of a name."""
        return self._rows.get(name, ())


class Encoder:
    """Codes for what slices say, from one vocabulary."""

    def __init__(self, vocabulary: Vocabulary, rules: Semantics) -> None:
        self.vocabulary = vocabulary
        self._lists_fail = rules.old and not rules.has(LIST_ATTRIBUTES)
        self._columns: dict[tuple[Name, ...], tuple[Name, ...]] = {}
        self._headers: dict[Header, Header] = {}
        self._places: dict[tuple[str, str], tuple[Name, Interner[Value]]] = {}
        """Driver and attribute as it is spelled -> its name and values"""
        self._values: OfObjects[DeviceAttribute, tuple[Hashable, Value, bool]] = OfObjects(KEPT)
        self._names: Recent[tuple[str, ...], Names] = Recent(KEPT)
        self._attributes: OfObjects[Mapping[str, DeviceAttribute], tuple[str, Attributes]] = OfObjects(KEPT)
        self._capacity: OfObjects[Mapping[str, DeviceCapacity], tuple[str, Capacity]] = OfObjects(KEPT)
        self._consumption: OfObjects[Sequence[CounterConsumption], Consumption] = OfObjects(KEPT)
        self._published: OfObjects[Sequence[CounterSet], int] = OfObjects(KEPT)

    def names(self, names: tuple[str, ...]) -> Names:
        """The names of the devices of a slice, or of a pool."""
        return self._names.get(names) or self._names.put(names, Names(names))

    def header(self, header: Header) -> Header:
        """The one object for all equal headers."""
        return self._headers.setdefault(header, header)

    def attributes(self, attributes: Mapping[str, DeviceAttribute], driver: str) -> Attributes:
        """The attributes of a device of a driver."""
        known = self._attributes.get(attributes)
        if known is None or known[0] != driver:
            known = self._attributes.put(attributes, (driver, self._describe(attributes, driver)))
        return known[1]

    def capacity(self, capacity: Mapping[str, DeviceCapacity], driver: str) -> Capacity:
        """The capacity of a device of a driver."""
        known = self._capacity.get(capacity)
        if known is None or known[0] != driver:
            codes: dict[Name, int] = {}
            for key, amount in _unqualified_first(capacity):
                name = qualified(key, driver)
                codes[name] = self.vocabulary.amount(name).code(amount.value)
            made = Capacity(
                self._coded(codes), self.vocabulary.shapes.code(_shape(capacity)) if capacity else -1
            )
            known = self._capacity.put(capacity, (driver, made))
        return known[1]

    def consumption(self, consumed: Sequence[CounterConsumption]) -> Consumption:
        """The draws of a device."""
        return self._consumption.get(consumed) or self._consumption.put(consumed, self._draws(consumed))

    def published(self, sets: Sequence[CounterSet]) -> int:
        """The counter sets that a slice publishes, coded; -1 for none."""
        if not sets:
            return -1
        known = self._published.get(sets)
        if known is None:
            said = tuple(
                (
                    one.name,
                    tuple(sorted((name, counter.value.nanos) for name, counter in one.counters.items())),
                )
                for one in sets
            )
            known = self._published.put(sets, self.vocabulary.published.code(said))
        return known

    def binding(self, device: Device) -> int:
        """What has to happen before the device may be used, coded; -1 for nothing."""
        if not (device.binding_conditions or device.binding_failure_conditions):
            return -1
        return self.vocabulary.bindings.code(
            Binding(device.binding_conditions, device.binding_failure_conditions)
        )

    def _describe(self, attributes: Mapping[str, DeviceAttribute], driver: str) -> Attributes:
        readable = True
        codes: dict[Name, int] = {}
        for key, attribute in _unqualified_first(attributes):
            tag, value, fine = self._values.get(attribute) or self._value(attribute)
            readable &= fine
            name, interner = self._places.get((driver, key)) or self._place(driver, key)
            codes[name] = interner.code(value, tag)
        return Attributes(self._coded(codes), readable)

    def _value(self, attribute: DeviceAttribute) -> tuple[Hashable, Value, bool]:
        """As `value_of`, and whether the server's version lets CEL look at such a value."""
        tag, value, fine = value_of(attribute)
        if self._lists_fail and any(getattr(attribute, name) is not None for name in LISTS):
            fine = False
        return self._values.put(attribute, (tag, value, fine))

    def _place(self, driver: str, key: str) -> tuple[Name, Interner[Value]]:
        name = qualified(key, driver)
        place = self._places[driver, key] = (name, self.vocabulary.attribute(name))
        return place

    def _coded(self, codes: Mapping[Name, int]) -> Coded:
        names = tuple(codes)
        return Coded(self._columns.setdefault(names, names), tuple(codes.values()))

    def _draws(self, consumed: Sequence[CounterConsumption]) -> Consumption:
        """A set that is named twice is drawn from twice."""
        found: dict[str, dict[str, int]] = {}
        for one in consumed:
            amounts = found.setdefault(one.counter_set, {})
            for name, counter in one.counters.items():
                amounts[name] = amounts.get(name, 0) + counter.value.nanos
        vocabulary = self.vocabulary
        return Consumption(
            tuple([vocabulary.sets.code(name) for name in found]),
            tuple([vocabulary.draws.code(tuple(sorted(amounts.items()))) for amounts in found.values()]),
            any(one.compatibility_groups for one in consumed),
        )


def _unqualified_first(entries: Mapping[str, T]) -> Sequence[tuple[str, T]]:
    """Where a device spells one name both ways, the qualified one is entered last and wins (CEL-3)."""
    if "/" in "".join(entries):
        return sorted(entries.items(), key=lambda entry: "/" in entry[0])
    return tuple(entries.items())


def _shape(capacity: Mapping[str, DeviceCapacity]) -> tuple[CapacitySlot, ...]:
    return tuple(
        CapacitySlot(key, capacity[key].value, capacity[key].request_policy) for key in sorted(capacity)
    )
