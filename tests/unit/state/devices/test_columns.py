"""Columns of a fleet: those of its slices one after the other, also where a column takes no memory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.state.devices.encoding import interner, tables
from reconciler.state.devices.encoding.block import FLAGS, split
from reconciler.state.devices.encoding.interner import UNKNOWN, Interner
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


@pytest.mark.parametrize("large", [3, 50, 10**6])
def test_codes_are_the_order_of_first_sight(large: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(interner, "LARGE", large)
    known: Interner[object] = Interner()
    plain: dict[object, int] = {}
    for number in [*range(120), *range(60, 180)]:
        name = f"serial-{number}"
        assert known.find(name) == plain.get(name, UNKNOWN)
        assert known.code(name) == plain.setdefault(name, len(plain))
    assert known.values == known.keys == list(plain)
    assert [known.find(name) for name in plain] == list(plain.values())


def test_values_that_compare_equal_have_codes_of_their_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(interner, "LARGE", 1)
    known: Interner[object] = Interner()
    values = [1, True, "1"]
    keys = [("int", 1), ("bool", True), ("string", "1")]
    assert [known.code(value, key) for value, key in zip(values, keys, strict=True)] == [0, 1, 2]
    assert [known.find(key) for key in reversed(keys)] == [2, 1, 0]
    assert known.values == values
