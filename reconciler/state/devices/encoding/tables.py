"""Joined tables of codes, and their view for CEL selectors."""

from collections.abc import Sequence
from itertools import chain, groupby
from typing import NamedTuple

import numpy as np

from kernels.types import Codes, Mask
from reconciler.cel.rows import Column
from reconciler.cel.rows import Rows as CelRows
from reconciler.state.devices.encoding.block import COLUMNS, FLAGS, Block
from reconciler.state.devices.encoding.parts import Header
from reconciler.state.devices.encoding.vocabulary import Vocabulary


class Table(NamedTuple):
    """Columns of D devices."""

    header: Header
    codes: Codes
    """(columns, D) `COLUMNS`, then those of the header; -1 where a device has none"""
    flags: Mask
    """(FLAGS, D)"""

    def cut(self, rows: slice) -> "Table":
        """A range of the devices, without a copy."""
        return Table(self.header, self.codes[:, rows], self.flags[:, rows])


def table_of(block: Block) -> Table:
    """The devices of one slice."""
    return Table(block.header, block.table, block.flags)


def join(tables: Sequence[Table]) -> Table:
    """The devices of several tables, one table after the other. Always a copy."""
    header = _union([table.header for table in tables])
    size = sum(table.codes.shape[1] for table in tables)
    codes = np.full((len(COLUMNS) + len(header.attributes) + len(header.capacity), size), -1, dtype=np.int32)
    start = 0
    for _, group in groupby(tables, key=lambda table: id(table.header)):
        alike = list(group)
        stop = start + sum(table.codes.shape[1] for table in alike)
        target, own = codes[:, start:stop], alike[0].header
        if own == header:
            np.concatenate([table.codes for table in alike], axis=1, out=target)
        else:
            target[places(own, header)] = np.concatenate([table.codes for table in alike], axis=1)
        start = stop
    flags = [table.flags for table in tables]
    return Table(
        header, codes, np.concatenate(flags, axis=1) if flags else np.zeros((len(FLAGS), 0), dtype=np.bool_)
    )


def _union(headers: Sequence[Header]) -> Header:
    """The union of all columns."""
    distinct = list({id(header): header for header in headers}.values())
    if len(distinct) == 1:
        return distinct[0]
    return Header(
        tuple(dict.fromkeys(chain.from_iterable(header.attributes for header in distinct))),
        tuple(dict.fromkeys(chain.from_iterable(header.capacity for header in distinct))),
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


def cel_rows(table: Table, vocabulary: Vocabulary) -> CelRows:
    """The devices as CEL selectors see them."""
    header, codes = table.header, table.codes
    middle = len(COLUMNS) + len(header.attributes)
    return CelRows(
        size=codes.shape[1],
        driver=Column(codes[COLUMNS.index("driver")], vocabulary.drivers.values),
        attributes={
            name: Column(column, vocabulary.attribute(name).values)
            for name, column in zip(header.attributes, codes[len(COLUMNS) : middle], strict=True)
        },
        capacity={
            name: Column(column, vocabulary.amount(name).values)
            for name, column in zip(header.capacity, codes[middle:], strict=True)
        },
        shared=table.flags[FLAGS.index("shared")],
        unreadable=table.flags[FLAGS.index("unreadable")],
        version=object(),
    )
