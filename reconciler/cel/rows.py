"""Devices as dictionary-encoded columns: the input of selectors."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from reconciler.cel.reads import Part, Read
from reconciler.cel.values import DeviceView, Value

Where = slice | NDArray[np.intp]
"""Positions of devices."""


class Column(Struct, frozen=True):
    """One attribute of all devices. `values` only grows, so cached answers per value stay valid."""

    codes: NDArray[np.int32]
    """(D,) index into values; -1 if the device does not have the attribute."""
    values: Sequence[Value]
    """Distinct typed values."""


class Rows(Struct, frozen=True):
    """The data of D devices that selectors read."""

    size: int
    driver: Column
    attributes: Mapping[tuple[str, str], Column]
    """By domain and id; ids without a domain are under the driver (CEL-3)."""
    capacity: Mapping[tuple[str, str], Column]
    shared: NDArray[np.bool_]
    """(D,) allowMultipleAllocations."""
    unreadable: NDArray[np.bool_]
    """(D,) no expression can be evaluated on this device (CEL-6)."""
    version: Hashable
    """Equal versions mean equal rows."""
    patches: tuple["Patch", ...] = ()
    """How these rows differ from some earlier versions, the latest first."""

    def device(self, row: int) -> DeviceView:
        """One device, as input of the plain evaluator."""
        return DeviceView(
            driver=self.driver.values[self.driver.codes[row]],
            attributes=_nested(self.attributes, row),
            capacity=_nested(self.capacity, row),
            shared=bool(self.shared[row]),
            unreadable=UNREADABLE if self.unreadable[row] else "",
        )

    def at(self, rows: Where) -> "Rows":
        """Some of the devices."""
        codes = self.driver.codes[rows]
        return Rows(
            size=len(codes),
            driver=Column(codes, self.driver.values),
            attributes=_at(self.attributes, rows),
            capacity=_at(self.capacity, rows),
            shared=self.shared[rows],
            unreadable=self.unreadable[rows],
            version=object(),
        )


def _at(columns: Mapping[tuple[str, str], Column], rows: Where) -> dict[tuple[str, str], Column]:
    return {name: Column(column.codes[rows], column.values) for name, column in columns.items()}


KEPT_PATCHES = 4
"""Earlier versions from which rows can be followed."""


class Changed(NamedTuple):
    """What differs between two versions of rows."""

    columns: frozenset[Read]
    """Columns with other codes, one by one."""
    readable: bool
    """Whether other devices are unreadable."""


class Patch:
    """The rows that differ from those of an earlier version; all others are equal and at the same place."""

    __slots__ = ("_part", "changed", "rows", "version")

    def __init__(self, version: Hashable, rows: Where, changed: Changed) -> None:
        self.version = version
        """Of the earlier rows"""
        self.rows = rows
        """(n,)"""
        self.changed = changed
        self._part: Rows | None = None

    def part(self, whole: Rows) -> Rows:
        """The devices that differ, of the rows that this patch leads to."""
        if self._part is None:
            self._part = whole.at(self.rows)
        return self._part

    def concerns(self, read: frozenset[Read]) -> bool:
        """Whether an expression that reads these columns may have other answers."""
        return self.changed.readable or any(
            one.includes(column) for column in self.changed.columns for one in read
        )


def followed(now: Rows, previous: Rows, where: Where) -> Rows:
    """Rows with patches from previous ones, which have the same columns and differ only in some places."""
    changed = Changed(frozenset(_differing(now, previous)), now.unreadable is not previous.unreadable)
    older = [
        Patch(
            patch.version,
            _union(patch.rows, where, now.size),
            Changed(patch.changed.columns | changed.columns, patch.changed.readable or changed.readable),
        )
        for patch in previous.patches[: KEPT_PATCHES - 1]
    ]
    return replace(now, patches=(Patch(previous.version, where, changed), *older))


def _differing(now: Rows, before: Rows) -> Iterator[Read]:
    """The columns that are not the same arrays."""
    if now.driver.codes is not before.driver.codes:
        yield Read(Part.DRIVER)
    if now.shared is not before.shared:
        yield Read(Part.SHARED)
    for part, columns, earlier in (
        (Part.ATTRIBUTES, now.attributes, before.attributes),
        (Part.CAPACITY, now.capacity, before.capacity),
    ):
        for name, column in columns.items():
            if column.codes is not earlier[name].codes:
                yield Read(part, *name)


def _union(one: Where, other: Where, size: int) -> Where:
    if isinstance(one, slice) and isinstance(other, slice) and one == other:
        return one
    found = np.zeros(size, dtype=np.bool_)
    found[one] = found[other] = True
    return np.flatnonzero(found)


UNREADABLE = (
    "the device has an invalid attribute, such as a version that is not a semantic version, or by the rules "
    "of 1.36 a list while DRAListTypeAttributes is off"
)


class Masks(Struct, frozen=True):
    """The answers of one selector by device. Read-only and disjoint."""

    true: NDArray[np.bool_]
    """(D,) the device is selected."""
    error: NDArray[np.bool_]
    """(D,) the evaluation fails on the device."""


def _nested(columns: Mapping[tuple[str, str], Column], row: int) -> dict[str, dict[str, Value]]:
    found: dict[str, dict[str, Value]] = {}
    for (domain, name), column in columns.items():
        code = column.codes[row]
        if code >= 0:
            found.setdefault(domain, {})[name] = column.values[code]
    return found
