"""Parts of devices as codes. A part is encoded once while slices share it.

Parsing shares equal parts as one object, so a part is usually found by identity.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from reconciler.api.objects.device_patterns import SpecPattern
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

if TYPE_CHECKING:
    from reconciler.state.devices.encoding.patterned import PatternColumns

T = TypeVar("T")

LISTS = ("ints", "bools", "strings", "versions")

KEPT = 1 << 14
"""Most parts of each sort that are cached."""
KEPT_PATTERNS = 1 << 10
"""Most patterns of slices whose columns are cached."""
KEPT_VALUES = 1 << 12
"""Most values of one attribute that are cached: shared values are few, serial numbers are used once."""


class Coded(NamedTuple):
    """Named values of one device: attributes, or capacity."""

    names: tuple[Name, ...]
    """Devices with the same names in the same order share this object"""
    codes: tuple[int, ...]
    """Codes of the values, in the order of `names`"""


class Attributes(NamedTuple):
    """The attributes of a device."""

    coded: Coded
    readable: bool
    """Whether CEL can evaluate the device (CEL-6)"""


class Capacity(NamedTuple):
    """The capacity of a device."""

    coded: Coded
    shape: int
    """Code of the amounts with their sharing policies; -1 for a device without capacity"""


class Consumption(NamedTuple):
    """The counters that a device draws from."""

    sets: tuple[int, ...]
    """Codes of counter set names"""
    draws: tuple[int, ...]
    """Codes of what is drawn from each set"""
    grouped: bool
    """Whether it declares compatibility groups"""


class Header(NamedTuple):
    """The columns of a slice after those that every slice has: attributes, then capacities."""

    attributes: tuple[Name, ...]
    capacity: tuple[Name, ...]


class Names:
    """The names of devices in order. Identical machines have equal names and share one object."""

    __slots__ = ("_rows", "all")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.all = names
        self._rows: dict[str, tuple[int, ...]] = {}
        for row, name in enumerate(names):
            self._rows[name] = (*self._rows.get(name, ()), row)

    @property
    def has_duplicates(self) -> bool:
        return len(self._rows) < len(self.all)

    def rows_of(self, name: str) -> tuple[int, ...]:
        """The positions of a device name."""
        return self._rows.get(name, ())


class _KnownValue(NamedTuple):
    """An attribute of devices that was encoded."""

    attribute: DeviceAttribute
    code: int
    readable: bool
    """Whether CEL can evaluate a device with it (CEL-6)"""


class _AttributeColumn(NamedTuple):
    """The values of one attribute."""

    interner: Interner[Value]
    known: dict[int, "_KnownValue"]
    """By the id of the attribute, which the value keeps alive"""


class _Layout(NamedTuple):
    """The attributes that devices with the same keys have."""

    names: tuple[Name, ...]
    columns: Sequence[tuple[_AttributeColumn, str]]
    """In the order of `names`, with the key as written"""


class Encoder:
    """Encodes slices with one vocabulary."""

    def __init__(self, vocabulary: Vocabulary, rules: Semantics) -> None:
        self.vocabulary = vocabulary
        self._lists_fail = rules.old and not rules.has(LIST_ATTRIBUTES)
        self._columns: dict[tuple[Name, ...], tuple[Name, ...]] = {}
        self._headers: dict[Header, Header] = {}
        self._columns_of: dict[Name, _AttributeColumn] = {}
        self._layouts: Recent[tuple[str, ...], _Layout] = Recent(KEPT)
        """(driver, keys of attributes as written) -> their columns"""
        self._names: Recent[tuple[str, ...], Names] = Recent(KEPT)
        self._attributes: OfObjects[Mapping[str, DeviceAttribute], tuple[str, Attributes]] = OfObjects(KEPT)
        self._capacity: OfObjects[Mapping[str, DeviceCapacity], tuple[str, Capacity]] = OfObjects(KEPT)
        self._consumption: OfObjects[Sequence[CounterConsumption], Consumption] = OfObjects(KEPT)
        self._published: OfObjects[Sequence[CounterSet], int] = OfObjects(KEPT)
        self.patterns: OfObjects[SpecPattern, PatternColumns] = OfObjects(KEPT_PATTERNS)
        """See `patterned`"""

    def names(self, names: tuple[str, ...]) -> Names:
        """The names of the devices of a slice, or of a pool."""
        return self._names.get(names) or self._names.put(names, Names(names))

    def header(self, header: Header) -> Header:
        """The shared object of all equal headers."""
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
        """The code of the counter sets that a slice publishes; -1 for none."""
        if not sets:
            return -1
        known = self._published.get(sets)
        if known is None:
            amounts = tuple(
                (
                    one.name,
                    tuple(sorted((name, counter.value.nanos) for name, counter in one.counters.items())),
                )
                for one in sets
            )
            known = self._published.put(sets, self.vocabulary.published.code(amounts))
        return known

    def binding(self, device: Device) -> int:
        """The code of a device's binding conditions; -1 for none."""
        if not (device.binding_conditions or device.binding_failure_conditions):
            return -1
        return self.vocabulary.bindings.code(
            Binding(device.binding_conditions, device.binding_failure_conditions)
        )

    def _describe(self, attributes: Mapping[str, DeviceAttribute], driver: str) -> Attributes:
        key = (driver, *attributes)
        layout = self._layouts.get(key) or self._lay_out(key, attributes, driver)
        codes: list[int] = []
        readable = True
        for column, written in layout.columns:
            attribute = attributes[written]
            known = column.known.get(id(attribute)) or self._code(column, attribute)
            codes.append(known.code)
            if not known.readable:
                readable = False
        return Attributes(Coded(layout.names, tuple(codes)), readable)

    def _lay_out(
        self, key: tuple[str, ...], attributes: Mapping[str, DeviceAttribute], driver: str
    ) -> "_Layout":
        """The columns of the devices of a driver that have attributes of the same keys in the same order."""
        # If two keys have one name, the last one counts; see `_unqualified_first`.
        of_name = {qualified(written, driver): written for written, _ in _unqualified_first(attributes)}
        names = tuple(of_name)
        columns = [
            (self._columns_of.get(name) or self._column(name), written) for name, written in of_name.items()
        ]
        return self._layouts.put(key, _Layout(self._columns.setdefault(names, names), columns))

    def _column(self, name: Name) -> "_AttributeColumn":
        made = self._columns_of[name] = _AttributeColumn(self.vocabulary.attribute(name), {})
        return made

    def _code(self, column: "_AttributeColumn", attribute: DeviceAttribute) -> "_KnownValue":
        tag, value, is_readable = self._value(attribute)
        if len(column.known) >= KEPT_VALUES:
            column.known.clear()
        known = _KnownValue(attribute, column.interner.code(value, tag), is_readable)
        column.known[id(attribute)] = known
        return known

    def _value(self, attribute: DeviceAttribute) -> tuple[Hashable, Value, bool]:
        """Like `value_of`, but CEL cannot read lists in old versions without the feature gate."""
        tag, value, fine = value_of(attribute)
        if self._lists_fail and any(getattr(attribute, name) is not None for name in LISTS):
            fine = False
        return tag, value, fine

    def _coded(self, codes: Mapping[Name, int]) -> Coded:
        names = tuple(codes)
        return Coded(self._columns.setdefault(names, names), tuple(codes.values()))

    def _draws(self, consumed: Sequence[CounterConsumption]) -> Consumption:
        """Several draws from one set are added."""
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
    """Unqualified keys first: if a device has one name in both forms, the qualified one wins (CEL-3)."""
    if "/" in "".join(entries):
        return sorted(entries.items(), key=lambda entry: "/" in entry[0])
    return tuple(entries.items())


def _shape(capacity: Mapping[str, DeviceCapacity]) -> tuple[CapacitySlot, ...]:
    return tuple(
        CapacitySlot(key, capacity[key].value, capacity[key].request_policy) for key in sorted(capacity)
    )
