"""Joined tables of codes, and their view for CEL selectors."""

from collections.abc import Sequence
from itertools import chain, groupby
from typing import Any, NamedTuple, TypeVar

import numpy as np

from kernels.types import Codes, Mask, Rows
from reconciler.cel.rows import Column
from reconciler.cel.rows import Rows as CelRows
from reconciler.state.devices.encoding.block import COLUMNS, FLAGS, Block
from reconciler.state.devices.encoding.parts import Header
from reconciler.state.devices.encoding.vocabulary import Vocabulary

PIECE = 1 << 10
"""Slices that are joined in one step, of two milliseconds"""

Array = TypeVar("Array", bound=np.ndarray[Any, Any])


class Table(NamedTuple):
    """Columns of D devices."""

    header: Header
    codes: Codes
    """(columns, D) `COLUMNS`, then those of the header; -1 where a device has none"""
    flags: Mask
    """(FLAGS, D)"""


class DeviceColumns(NamedTuple):
    """A table as separate arrays, so that tables can share the columns that are equal. Read-only."""

    header: Header
    codes: tuple[Codes, ...]
    """(D,) each"""
    flags: tuple[Mask, ...]
    """(D,) each"""

    @classmethod
    def joined(cls, parts: Sequence["Part"]) -> "DeviceColumns":
        """The devices of several slices or tables, one after the other.

        PIECE parts at a time: another thread cannot run while NumPy joins many arrays.
        """
        header, size = _union([part.header for part in parts]), sum(part.flags.shape[1] for part in parts)
        codes = [_Column(size, np.int32) for _ in range(width(header))]
        flags = [_Column(size, np.bool_) for _ in FLAGS]
        start = 0
        for first in range(0, len(parts), PIECE):
            piece = join(parts[first : first + PIECE])
            rows = slice(start, start + piece.flags.shape[1])
            own = np.full((len(codes), rows.stop - start), -1, dtype=np.int32)
            own[places(piece.header, header)] = piece.codes
            for column, values in chain(zip(codes, own, strict=True), zip(flags, piece.flags, strict=True)):
                column.put(rows, values)
            start = rows.stop
        return cls(header, tuple(one.array() for one in codes), tuple(one.array() for one in flags))

    def cut(self, rows: slice | Rows) -> Table:
        """Some of the devices. Always a copy."""
        codes = np.array([column[rows] for column in self.codes])
        return Table(self.header, codes, np.array([column[rows] for column in self.flags]))

    def patched(self, rows: slice | Rows, table: Table) -> "DeviceColumns":
        """With other devices in some rows. Only columns that differ there are copied.

        The header of `table` must have no other columns than this one.
        """
        before, after = self.cut(rows), table.codes
        if table.header != self.header:
            after = np.full_like(before.codes, -1)
            after[places(table.header, self.header)] = table.codes
        return self._replace(
            codes=_patched(self.codes, rows, before.codes, after),
            flags=_patched(self.flags, rows, before.flags, table.flags),
        )


Part = Table | Block
"""Devices to join"""


class _Column:
    """A column that is filled from its start. One value in all rows takes no memory."""

    def __init__(self, size: int, dtype: type) -> None:
        self._values: np.ndarray[Any, Any] = np.zeros(1, dtype)
        self._size = size

    def put(self, rows: slice, values: np.ndarray[Any, Any]) -> None:
        """Write the next rows."""
        if rows.start == 0:
            self._values = values[:1].copy()
        if len(self._values) == 1 and (values != self._values).any():
            self._values = np.full(self._size, self._values)
        if len(self._values) > 1:
            self._values[rows] = values

    def array(self) -> np.ndarray[Any, Any]:
        """(size,) read-only"""
        self._values.setflags(write=False)
        return np.broadcast_to(self._values, self._size)


def join(parts: Sequence[Part]) -> Table:
    """The devices of several slices or tables, one after the other. Always a copy."""
    header, size = _union([part.header for part in parts]), sum(part.flags.shape[1] for part in parts)
    # Filled first: while NumPy fills, or has new memory cleared for that, other threads run.
    codes = np.full((width(header), size), -1, dtype=np.int32)
    flags = np.empty((len(FLAGS), size), dtype=np.bool_)
    start = 0
    for _, group in groupby(parts, key=lambda part: id(part.header)):
        alike = list(group)
        stop = start + sum(part.flags.shape[1] for part in alike)
        rows, own = slice(start, stop), alike[0].header
        if own == header:
            np.concatenate([part.codes for part in alike], axis=1, out=codes[:, rows])
        else:
            codes[places(own, header), rows] = np.concatenate([part.codes for part in alike], axis=1)
        np.concatenate([part.flags for part in alike], axis=1, out=flags[:, rows])
        start = stop
    return Table(header, codes, flags)


def _patched(
    columns: tuple[Array, ...], rows: slice | Rows, before: Array, after: Array
) -> tuple[Array, ...]:
    """The columns with the values `after` (columns, n) in some rows instead of `before`."""
    found = list(columns)
    for at in np.flatnonzero((before != after).any(axis=1)).tolist():
        found[at] = column = found[at].copy()
        column[rows] = after[at]
        column.setflags(write=False)
    return tuple(found)


def _union(headers: Sequence[Header]) -> Header:
    """The union of all columns."""
    distinct = list({id(header): header for header in headers}.values())
    if len(distinct) == 1:
        return distinct[0]
    return Header(
        tuple(dict.fromkeys(chain.from_iterable(header.attributes for header in distinct))),
        tuple(dict.fromkeys(chain.from_iterable(header.capacity for header in distinct))),
    )


def width(header: Header) -> int:
    """The number of columns of codes."""
    return len(COLUMNS) + len(header.attributes) + len(header.capacity)


def covers(whole: Header, own: Header) -> bool:
    """Whether one header has all columns of another."""
    return own == whole or (
        set(own.attributes) <= set(whole.attributes) and set(own.capacity) <= set(whole.capacity)
    )


def places(own: Header, whole: Header) -> list[int]:
    """The positions of one header's columns in another header that has them all."""
    attributes = {name: at for at, name in enumerate(whole.attributes, start=len(COLUMNS))}
    capacity = {name: at for at, name in enumerate(whole.capacity, start=len(COLUMNS) + len(attributes))}
    return [
        *range(len(COLUMNS)),
        *(attributes[name] for name in own.attributes),
        *(capacity[name] for name in own.capacity),
    ]


def cel_rows(devices: DeviceColumns, vocabulary: Vocabulary) -> CelRows:
    """The devices as CEL selectors see them."""
    header, codes = devices.header, devices.codes
    middle = len(COLUMNS) + len(header.attributes)
    flags = dict(zip(FLAGS, devices.flags, strict=True))
    return CelRows(
        size=len(codes[0]),
        driver=Column(codes[COLUMNS.index("driver")], vocabulary.drivers.values),
        attributes={
            name: Column(column, vocabulary.attribute(name).values)
            for name, column in zip(header.attributes, codes[len(COLUMNS) : middle], strict=True)
        },
        capacity={
            name: Column(column, vocabulary.amount(name).values)
            for name, column in zip(header.capacity, codes[middle:], strict=True)
        },
        shared=flags["shared"],
        unreadable=flags["unreadable"],
        version=object(),
    )
