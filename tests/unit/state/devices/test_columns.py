"""Columns of a fleet: those of its slices one after the other, also where a column takes no memory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.state.devices.encoding import tables
from reconciler.state.devices.encoding.block import FLAGS, split
from reconciler.state.devices.encoding.parts import Header
from reconciler.state.devices.encoding.tables import DeviceColumns, Table, join, width
from reconciler.state.devices.encoding.vocabulary import Name

HEADERS = [
    Header((), ()),
    Header((Name("d", "a"),), (Name("d", "m"),)),
    Header((Name("d", "b"), Name("d", "a")), ()),
]


@st.composite
def parts(draw: st.DrawFn) -> list[Table]:
    """Tables of few values: whole columns are often equal."""
    found = []
    for header in draw(st.lists(st.sampled_from(HEADERS), max_size=6)):
        shape = width(header), draw(st.integers(0, 4))
        random = np.random.default_rng(draw(st.integers(0, 99)))
        codes = random.integers(-1, draw(st.integers(0, 2)), shape, dtype=np.int32)
        found.append(Table(header, codes, random.random((len(FLAGS), shape[1])) < 0.1))
    return found


@given(parts(), st.integers(1, 3))
def test_joined_columns_are_those_of_one_table(found: list[Table], piece: int):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "PIECE", piece)
        columns, whole = DeviceColumns.joined(found), join(found)
    assert columns.header == whole.header
    for mine, expected in zip((*columns.codes, *columns.flags), (*whole.codes, *whole.flags), strict=True):
        assert mine.dtype == expected.dtype
        assert not mine.flags.writeable
        assert mine.tolist() == expected.tolist()


@given(parts())
def test_split_codes_can_be_added_again(found: list[Table]):
    for table in found:
        first, steps = split(table.codes)
        assert (np.frombuffer(first, np.int32)[:, None] + steps).tolist() == table.codes.tolist()
