"""Devices of slices that are equal but for some strings, such as serial numbers. Made when asked for.

A fleet of one machine type publishes the same slice again and again. Only what differs is stored for each.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

if TYPE_CHECKING:
    from reconciler.api.objects.slices import Device, ResourceSliceSpec

T = TypeVar("T")


class Blank(NamedTuple):
    """A string attribute whose value differs between the slices of a pattern."""

    row: int
    """Position of the device in its slice"""
    key: str
    """The attribute, as the slice writes it"""


class SpecPattern:
    """What slices have in common: all but their node, the name of their pool, and some strings."""

    def __init__(self, spec: "ResourceSliceSpec", blanks: Sequence[Blank]) -> None:
        """`spec` is any spec of the pattern, with devices of its own."""
        self.spec = spec
        self.blanks = tuple(blanks)
        self._blanks_of: dict[int, list[int]] = {}
        for number, blank in enumerate(self.blanks):
            self._blanks_of.setdefault(blank.row, []).append(number)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of attributes and capacities, which all slices of the pattern have."""
        return self.spec.names()

    def device(self, row: int, strings: Sequence[str]) -> "Device":
        """A device of the slice with these strings. Raises IndexError."""
        device = self.spec.devices[row]
        blanks = self._blanks_of.get(row)
        if blanks is None:
            return device
        keys = {self.blanks[number].key: strings[number] for number in blanks}
        own = {key: _changed(device.attributes[key], "string", string) for key, string in keys.items()}
        return _changed(device, "attributes", {**device.attributes, **own})


class PatternDevices(Sequence["Device"]):
    """The devices of one slice of a pattern. Equal to any sequence of equal devices."""

    __slots__ = ("pattern", "strings")

    def __init__(self, pattern: SpecPattern, strings: tuple[str, ...]) -> None:
        """`strings` are the values of the blanks."""
        self.pattern = pattern
        self.strings = strings

    def __len__(self) -> int:
        return len(self.pattern.spec.devices)

    @overload
    def __getitem__(self, at: int) -> "Device": ...
    @overload
    def __getitem__(self, at: slice) -> "tuple[Device, ...]": ...
    def __getitem__(self, at: int | slice) -> "Device | tuple[Device, ...]":
        if isinstance(at, slice):
            return tuple([self._at(row) for row in range(*at.indices(len(self)))])
        return self._at(range(len(self))[at])

    def __iter__(self) -> Iterator["Device"]:
        return map(self._at, range(len(self)))

    def _at(self, row: int) -> "Device":
        return self.pattern.device(row, self.strings)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PatternDevices) and other.pattern is self.pattern:
            return self.strings == other.strings
        if not isinstance(other, Sequence) or len(other) != len(self):
            return False
        return all(own == theirs for own, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # devices have dicts

    def __repr__(self) -> str:
        return repr(tuple(self))


def places_of(places: Sequence[int]) -> Callable[[Sequence[T]], Sequence[T]]:
    """What picks the items at these places of a sequence, at least one, as fast as Python can."""
    first, last = places[0], places[-1]
    if list(places) == list(range(first, last + 1)):
        return itemgetter(slice(first, last + 1))
    return itemgetter(*places)


def without_blanks(devices: "Sequence[Device]") -> "Sequence[Device]":
    """The devices, perhaps with other strings in string attributes: for questions that do not read these."""
    return devices.pattern.spec.devices if isinstance(devices, PatternDevices) else devices


def differing(before: "Sequence[Device]", now: "Sequence[Device]") -> list[int]:
    """Positions at which two equally long sequences of devices differ, rising."""
    if (
        isinstance(before, PatternDevices)
        and isinstance(now, PatternDevices)
        and before.pattern is now.pattern
    ):
        pairs = zip(now.pattern.blanks, before.strings, now.strings, strict=True)
        return sorted({blank.row for blank, old, new in pairs if old != new})
    return [
        row for row, (old, new) in enumerate(zip(before, now, strict=True)) if old is not new and old != new
    ]


def _changed(thing: T, field: str, value: object) -> T:
    """A copy of a part of a slice with another value of one field. Not validated: its pattern was."""
    made = object.__new__(type(thing))
    for name, read, write in _slots(type(thing)):  # type: ignore[arg-type]  # types are hashable
        write(made, value if name == field else read(thing))
    return made


@lru_cache
def _slots(kind: type[object]) -> tuple[tuple[str, Callable[[Any], Any], Callable[[Any, Any], None]], ...]:
    """The fields of a part of a slice, with how each is read and written."""
    fields = vars(kind)
    slots = ((name, fields[name]) for name in fields["__slots__"])
    return tuple([(name, slot.__get__, slot.__set__) for name, slot in slots])
