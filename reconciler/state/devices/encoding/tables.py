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

PIECE = 1 << 12
"""Tables of a slice each that are joined in one step, of two milliseconds"""

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
    def of(cls, table: Table) -> "DeviceColumns":
        """The columns of a table, without a copy. The table becomes read-only."""
        table.codes.setflags(write=False)
        table.flags.setflags(write=False)
        return cls(table.header, tuple(table.codes), tuple(table.flags))

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


def table_of(block: Block) -> Table:
    """The devices of one slice."""
    return Table(block.header, block.table, block.flags)


def join(tables: Sequence[Table]) -> Table:
    """The devices of several tables, one table after the other. Always a copy.

    PIECE tables at a time: another thread cannot run while NumPy joins many arrays.
    """
    header = _union([table.header for table in tables])
    size = sum(table.codes.shape[1] for table in tables)
    # Filled first: while NumPy fills, or has new memory cleared for that, other threads run.
    codes = np.full((len(COLUMNS) + len(header.attributes) + len(header.capacity), size), -1, dtype=np.int32)
    flags = np.empty((len(FLAGS), size), dtype=np.bool_)
    start = 0
    for first in range(0, len(tables), PIECE):
        for _, group in groupby(tables[first : first + PIECE], key=lambda table: id(table.header)):
            alike = list(group)
            stop = start + sum(table.codes.shape[1] for table in alike)
            rows, own = slice(start, stop), alike[0].header
            if own == header:
                np.concatenate([table.codes for table in alike], axis=1, out=codes[:, rows])
            else:
                codes[places(own, header), rows] = np.concatenate([table.codes for table in alike], axis=1)
            np.concatenate([table.flags for table in alike], axis=1, out=flags[:, rows])
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
