"""From codes to rows, compared with plain loops."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernels.groups import constant_mask, invert, row_range
from tests.tools import reference_kernels
from tests.tools.arrays import codes, untouched

SIZE = 5
ROWS = st.integers(0, 3).flatmap(
    lambda width: st.tuples(
        st.just(width), st.lists(st.lists(st.integers(-1, SIZE - 1), min_size=width, max_size=width))
    )
)


@given(ROWS)
def test_the_rows_of_a_code_are_those_that_carry_it_in_order(world: tuple[int, list[list[int]]]):
    width, rows = world
    index = untouched(invert, codes(rows, width), SIZE)
    assert [index.of(code).tolist() for code in range(SIZE)] == [
        reference_kernels.rows_of(rows, code) for code in range(SIZE)
    ]


@given(st.lists(st.integers(-1, SIZE - 1)))
def test_a_single_column_needs_no_second_axis(column: list[int]):
    index = invert(np.array(column, dtype=np.int32), SIZE)
    assert [index.of(code).tolist() for code in range(SIZE)] == [
        reference_kernels.rows_of([[code] for code in column], code) for code in range(SIZE)
    ]


@given(ROWS, st.lists(st.integers(0, SIZE - 1), unique=True, max_size=SIZE))
def test_the_rows_of_several_codes_come_once_each_in_order(
    world: tuple[int, list[list[int]]], wanted: list[int]
):
    width, rows = world
    rows = [[*dict.fromkeys(entries), *[-1] * width][:width] for entries in rows]  # a row has a code once
    found = invert(codes(rows, width), SIZE).of_any(np.array(wanted, dtype=np.intp))
    assert found.tolist() == [row for row, entries in enumerate(rows) if set(entries) & set(wanted)]


@given(st.lists(st.integers(-1, SIZE - 1), max_size=8), st.lists(st.integers(0, SIZE - 1), max_size=5))
def test_rows_of_each_code_are_listed_code_by_code(rows: list[int], wanted: list[int]):
    index = invert(np.array(rows, dtype=np.int32), SIZE)
    found, of = index.of_each(np.array(wanted, dtype=np.int32))
    expected = [(row, at) for at, code in enumerate(wanted) for row, one in enumerate(rows) if one == code]
    assert [*zip(found.tolist(), of.tolist(), strict=True)] == expected


def test_no_rows_and_no_codes():
    assert invert(codes([], 2), 0).start.tolist() == [0]
    assert invert(codes([], 2), 2).of(1).tolist() == []
    assert invert(codes([[0]], 1), 1).of_any(np.array([], dtype=np.intp)).tolist() == []


@given(st.integers(0, 20), st.integers(0, 20), st.booleans())
def test_ranges_and_masks_are_read_only(first: int, size: int, yes: bool):
    rows, mask = row_range(first, first + size), constant_mask(size, yes=yes)
    assert rows.tolist() == list(range(first, first + size))
    assert mask.tolist() == [yes] * size
    assert not rows.flags.writeable
    assert not mask.flags.writeable
