"""Parts of devices as codes: names, attributes, capacity and what they draw from counter sets."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from zlib import DEFLATED, MAX_WBITS, compressobj, decompressobj

import numpy as np

from reconciler.api.objects import slices
from reconciler.api.objects.quantity import ZERO
from reconciler.api.objects.semantics import LIST_ATTRIBUTES, SHARED_CAPACITY, Semantics
from reconciler.state.caches import Recent
from reconciler.state.devices.encoding import vocabulary as vocab

T = TypeVar("T")

Array = TypeVar("Array", bound=np.ndarray[Any, Any])

LONGEST_SAMPLE = 1 << 15
"""Bytes of a sample that compression looks back on"""
LITTLE_MEMORY = 5
"""Of 9 levels. More takes as long to get and to clear as to compress a slice, and saves next to nothing"""
LISTS = ("ints", "bools", "strings", "versions")

KEPT = 1 << 14
"""Most layouts, capacities and draws that are cached: machines of one type have the same."""


class NamedCodes(NamedTuple):
    """Attributes, or capacities, of the devices of a slice that have the same names in the same order."""

    names: tuple[vocab.Name, ...]
    rows: Sequence[int]
    """Positions of the devices"""
    codes: Sequence[Sequence[int]]
    """(names, rows)"""


class Capacity(NamedTuple):
    """The capacity of a device."""

    names: tuple[vocab.Name, ...]
    """Devices with the same names in the same order share this object"""
    codes: tuple[int, ...]
    """Codes of the values, in the order of `names`"""
    shape: int
    """Code of the amounts with their sharing policies; -1 for a device without capacity"""


class DeviceDraws(NamedTuple):
    """The counters that a device draws from."""

    sets: tuple[int, ...]
    """Codes of counter set names"""
    draws: tuple[int, ...]
    """Codes of what is drawn from each set"""
    grouped: bool
    """Whether it declares compatibility groups"""
    asked: int = -1
    """Code of the counters whose amount its request says; -1 for none"""


NOTHING_CONSUMED = DeviceDraws((), (), grouped=False)


class Packed(NamedTuple):
    """A text, compressed with another one as its dictionary: what both have takes no room."""

    data: bytes
    sample: bytes

    @classmethod
    def of(cls, text: bytes, sample: bytes) -> "Packed":
        """The text, compressed as fast as possible, without a checksum."""
        packer = compressobj(1, DEFLATED, -MAX_WBITS, LITTLE_MEMORY, zdict=sample)
        return cls(packer.compress(text) + packer.flush(), sample)

    def text(self) -> bytes:
        """The text again."""
        return decompressobj(-MAX_WBITS, zdict=self.sample).decompress(self.data)


class Header(NamedTuple):
    """The columns of a slice after those that every slice has: attributes, then capacities."""

    attributes: tuple[vocab.Name, ...]
    capacity: tuple[vocab.Name, ...]


class Names:
    """The names of devices in order. Identical machines have equal names and share one object."""

    __slots__ = ("all", "positions")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.all = names
        self.positions: dict[str, tuple[int, ...]] = {}
        for row, name in enumerate(names):
            self.positions[name] = (*self.positions.get(name, ()), row)

    @property
    def has_duplicates(self) -> bool:
        return len(self.positions) < len(self.all)

    def rows_of(self, name: str) -> tuple[int, ...]:
        """The positions of a device name."""
        return self.positions.get(name, ())


class _Layout(NamedTuple):
    """The attributes, or capacities, that devices with the same keys have."""

    names: tuple[vocab.Name, ...]
    columns: Sequence[tuple[vocab.Interner[vocab.Value], str]]
    """In the order of `names`, with the key as written"""


class Encoder:
    """Encodes slices with one vocabulary."""

    def __init__(self, vocabulary: vocab.Vocabulary, rules: Semantics) -> None:
        self.vocabulary = vocabulary
        self._requests_draw = rules.has(SHARED_CAPACITY)
        self._lists_fail = rules.old and not rules.has(LIST_ATTRIBUTES)
        self._columns: dict[tuple[vocab.Name, ...], tuple[vocab.Name, ...]] = {}
        self._headers: dict[Header, Header] = {}
        self._layouts: Recent[tuple[str, tuple[str, ...]], _Layout] = Recent(KEPT)
        """(driver, keys of attributes as written) -> their columns"""
        self._samples: dict[str, bytes] = {}
        """Driver -> the text of its first slice"""
        self._arrays: Recent[Hashable, Any] = Recent(KEPT)
        self._names: Recent[tuple[str, ...], Names] = Recent(KEPT)
        self._capacity: Recent[Hashable, Capacity] = Recent(KEPT)
        """By the driver and all amounts"""
        self._consumption: Recent[Hashable, DeviceDraws] = Recent(KEPT)
        """By all amounts"""

    def packed(self, text: bytes, driver: str) -> Packed:
        """A slice of a driver, compressed; its slices differ in little from the first one."""
        return Packed.of(text, self._samples.setdefault(driver, text[:LONGEST_SAMPLE]))

    def shared(self, array: Array) -> Array:
        """The shared object of all equal arrays, which becomes read-only: machines of one type have many."""
        data = array.tobytes()
        key = array.shape, hash(data)
        known = self._arrays.get(key)
        if known is None or known.tobytes() != data:
            array.setflags(write=False)
            known = self._arrays.put(key, array)
        return known

    def names(self, names: tuple[str, ...]) -> Names:
        """The names of the devices of a slice, or of a pool."""
        return self._names.of(names, lambda: Names(names))

    def header(self, header: Header) -> Header:
        """The shared object of all equal headers."""
        return self._headers.setdefault(header, header)

    def attributes(
        self, described: Sequence[Mapping[str, slices.DeviceAttribute]], driver: str
    ) -> tuple[Sequence[NamedCodes], Sequence[int]]:
        """The attributes of the devices of a slice, and which devices CEL cannot evaluate (CEL-6)."""
        rows_of: dict[tuple[str, ...], list[int]] = {}
        for row, attributes in enumerate(described):
            rows_of.setdefault(tuple(attributes), []).append(row)
        found, unreadable = [], set[int]()
        for keys, rows in rows_of.items():
            layout = self._layouts.get((driver, keys)) or self._lay_out(driver, keys)
            own = [described[row] for row in rows]
            codes: list[Sequence[int]] = []
            for interner, written in layout.columns:
                texts = [attributes[written].get("string") for attributes in own]
                if None in texts:
                    values = [attributes[written] for attributes in own]
                    codes.append(self._codes(values, interner, rows, unreadable))
                else:
                    codes.append(interner.codes(texts))  # type: ignore[arg-type]
            found.append(NamedCodes(layout.names, rows, codes))
        return found, [*unreadable]

    def _codes(
        self,
        values: Sequence[slices.DeviceAttribute],
        interner: vocab.Interner[vocab.Value],
        rows: Sequence[int],
        unreadable: set[int],
    ) -> Sequence[int]:
        """The codes of values of any type. Adds to `unreadable` the rows that CEL cannot evaluate."""
        codes: list[int] = []
        before: slices.DeviceAttribute | None = None
        code, is_fine = -1, False
        for row, value in zip(rows, values, strict=True):
            if value != before:
                before = value
                tag, plain, is_fine = vocab.value_of(value)
                if self._lists_fail and not value.keys().isdisjoint(LISTS):
                    is_fine = False  # CEL cannot read lists in old versions without the feature gate
                code = interner.code(plain, tag)
            codes.append(code)
            if not is_fine:
                unreadable.add(row)
        return codes

    def capacity(
        self, capacity: Mapping[str, slices.DeviceCapacity], driver: str, asked: int = -1
    ) -> Capacity:
        """The capacity of a device of a driver. `asked` is that of its `DeviceDraws`."""
        asked = asked if self._requests_draw else -1
        own = [(key, one.value.nanos, one.request_policy) for key, one in capacity.items()]
        key = driver, asked, tuple(own)
        known = self._capacity.get(key)
        if known is None:
            codes: dict[vocab.Name, int] = {}
            for written, amount in _unqualified_first(capacity):
                name = vocab.qualified(written, driver)
                codes[name] = self.vocabulary.amount(name).code(amount.value)
            slots = [
                vocab.CapacitySlot(name, one.value, one.request_policy) for name, one in capacity.items()
            ]
            if asked >= 0:
                drawn = {key for one in self.vocabulary.asked.values[asked] for key in one.keys}
                slots += [vocab.CapacitySlot(key, ZERO, None, drawn=True) for key in drawn - capacity.keys()]
            by_key = tuple(sorted(slots, key=lambda slot: slot.key))
            code = self.vocabulary.shapes.code(by_key) if slots else -1
            names = self._shared(tuple(codes))
            known = self._capacity.put(key, Capacity(names, tuple(codes.values()), code))
        return known

    def consumption(self, consumed: Sequence[slices.CounterConsumption], driver: str) -> DeviceDraws:
        """The draws of a device of a driver. Several draws from one set are added."""
        if not consumed:
            return NOTHING_CONSUMED
        key = tuple(
            [
                (
                    one.counter_set,
                    bool(one.compatibility_groups),
                    tuple(one.counters),
                    tuple(
                        [
                            counter["value"].nanos if "value" in counter else _asked(counter)
                            for counter in one.counters.values()
                        ]
                    ),
                )
                for one in consumed
            ]
        )
        known = self._consumption.get((driver, key))
        if known is None:
            found: dict[str, dict[str, int]] = {}
            asked: list[vocab.Asked] = []
            for counter_set, _, names, drawn in key:
                amounts = found.setdefault(counter_set, {})
                for name, much in zip(names, drawn, strict=True):
                    if isinstance(much, str):
                        asked.append(vocab.Asked(counter_set, name, vocab.spellings(much, driver)))
                    amounts[name] = amounts.get(name, 0) + (0 if isinstance(much, str) else much)
            draws = [tuple(sorted(amounts.items())) for amounts in found.values()]
            made = DeviceDraws(
                tuple([self.vocabulary.sets.code(name) for name in found]),
                tuple([self.vocabulary.draws.code(draw) for draw in draws]),
                any(grouped for _, grouped, *_ in key),
                self.vocabulary.asked.code(tuple(sorted(asked))) if asked else -1,
            )
            known = self._consumption.put((driver, key), made)
        return known

    def published(self, sets: Sequence[slices.CounterSet]) -> int:
        """The code of the counter sets that a slice publishes; -1 for none."""
        if not sets:
            return -1
        return self.vocabulary.published.code(
            tuple(
                (
                    one.name,
                    tuple(
                        sorted(
                            (name, counter.get("value", ZERO).nanos) for name, counter in one.counters.items()
                        )
                    ),
                    tuple(
                        (name, one.counters[name]["requestPolicy"])
                        for name in sorted(one.counters)
                        if "requestPolicy" in one.counters[name]
                    ),
                )
                for one in sets
            )
        )

    def _lay_out(self, driver: str, keys: tuple[str, ...]) -> _Layout:
        """The columns of the devices of a driver that have attributes of the same keys in the same order."""
        # If two keys have one name, the last one counts; see `_unqualified_first`.
        of_name = {
            vocab.qualified(written, driver): written
            for written, _ in _unqualified_first(dict.fromkeys(keys))
        }
        columns = [(self.vocabulary.attribute(name), key) for name, key in of_name.items()]
        return self._layouts.put((driver, keys), _Layout(self._shared(tuple(of_name)), columns))

    def _shared(self, names: tuple[vocab.Name, ...]) -> tuple[vocab.Name, ...]:
        """The shared object of all equal names."""
        return self._columns.setdefault(names, names)


def _asked(counter: slices.Counter) -> int | str:
    """The capacity of which a request says how much a device draws; 0 for nothing."""
    return counter["valueFrom"].get("capacityName", 0) if "valueFrom" in counter else 0


def _unqualified_first(entries: Mapping[str, T]) -> Sequence[tuple[str, T]]:
    """Unqualified keys first: if a device has one name in both forms, the qualified one wins (CEL-3)."""
    if "/" in "".join(entries):
        return sorted(entries.items(), key=lambda entry: "/" in entry[0])
    return tuple(entries.items())
