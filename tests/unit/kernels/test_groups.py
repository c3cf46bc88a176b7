"""Reductions over groups, compared with plain loops."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from kernels.groups import (
    constant_mask,
    count_changes,
    distinct,
    distinct_pairs,
    group_code,
    group_min,
    invert,
    row_range,
)
from tests.tools import reference_kernels
from tests.tools.arrays import FAR, NEAR, amounts, codes, untouched

SIZE = 4
GROUPS = st.integers(0, SIZE - 1)


@given(st.lists(st.tuples(GROUPS, NEAR | FAR, NEAR | FAR), max_size=8))
def test_group_min_is_the_plain_definition(rows: list[tuple[int, int, int]]):
    groups, values = [group for group, *_ in rows], [pair for _, *pair in rows]
    found = untouched(group_min, amounts(values, 2), np.array(groups, dtype=np.intp), SIZE)
    assert found.tolist() == reference_kernels.group_min(values, groups, SIZE, 2)


@given(st.lists(st.tuples(GROUPS, st.integers(-1, 2)), max_size=8))
def test_group_code_is_the_plain_definition(rows: list[tuple[int, int]]):
    groups, codes = [group for group, _ in rows], [code for _, code in rows]
    found = untouched(group_code, np.array(codes, dtype=np.int32), np.array(groups, dtype=np.intp), SIZE)
    assert found.tolist() == reference_kernels.group_code(codes, groups, SIZE)


@given(st.lists(st.tuples(GROUPS, st.booleans()), max_size=8), st.sampled_from([1, 5]))
def test_counted_changes_are_the_plain_definition(rows: list[tuple[int, bool]], times: int):
    """A few rows and many, which are counted in another way."""
    counts, expected = np.arange(SIZE), list(range(SIZE))
    groups = np.array([group for group, _ in rows] * times, dtype=np.int32)
    gained = np.array([more for _, more in rows] * times, dtype=np.bool_)
    for group, more in rows * times:
        expected[group] += 1 if more else -1
    count_changes(counts, groups, gained)
    assert counts.tolist() == expected


TYPES = [np.bool_, np.int8, np.uint8, np.int32, np.int64, np.intp, np.uint64]
ANY = st.sampled_from(TYPES).flatmap(lambda dtype: arrays(dtype, array_shapes(min_dims=1, min_side=0)))
FLOATS = arrays(np.float64, array_shapes(), elements=st.floats(allow_nan=False))


@given(ANY | FLOATS)
def test_it_finds_each_value_once_in_order_and_changes_nothing(values: np.ndarray):
    before = values.copy()
    found = distinct(values)
    assert found.tolist() == sorted(set(values.ravel().tolist()))
    usual = np.unique(values)
    assert (found.dtype, found.shape) == (usual.dtype, usual.shape)
    assert np.array_equal(values, before)


@given(st.lists(st.tuples(st.integers(-2, 3), st.integers(-2, 3))))
def test_it_finds_each_pair_once_in_order(pairs: list[tuple[int, int]]):
    table = np.array(pairs, dtype=np.intp).reshape(-1, 2)
    first, second = distinct_pairs(table[:, 0], table[:, 1])
    assert [*zip(first.tolist(), second.tolist(), strict=True)] == sorted(set(pairs))
    assert first.dtype == second.dtype == np.intp


CODES = 5
ROWS = st.integers(0, 3).flatmap(
    lambda width: st.tuples(
        st.just(width), st.lists(st.lists(st.integers(-1, CODES - 1), min_size=width, max_size=width))
    )
)


@given(ROWS)
def test_the_rows_of_a_code_are_those_that_carry_it_in_order(world: tuple[int, list[list[int]]]):
    width, rows = world
    index = untouched(invert, codes(rows, width), CODES)
    found = [index.of(code).tolist() for code in range(CODES)]
    assert found == [reference_kernels.rows_of(rows, code) for code in range(CODES)]


@given(st.lists(st.integers(-1, CODES - 1)))
def test_a_single_column_needs_no_second_axis(column: list[int]):
    index = invert(np.array(column, dtype=np.int32), CODES)
    found = [index.of(code).tolist() for code in range(CODES)]
    assert found == [reference_kernels.rows_of([[code] for code in column], code) for code in range(CODES)]


@given(ROWS, st.lists(st.integers(0, CODES - 1), unique=True, max_size=CODES))
def test_the_rows_of_several_codes_come_once_each_in_order(
    world: tuple[int, list[list[int]]], wanted: list[int]
):
    width, rows = world
    rows = [[*dict.fromkeys(entries), *[-1] * width][:width] for entries in rows]  # a row has a code once
    found = invert(codes(rows, width), CODES).of_any(np.array(wanted, dtype=np.intp))
    assert found.tolist() == [row for row, entries in enumerate(rows) if set(entries) & set(wanted)]


@given(st.lists(st.integers(-1, CODES - 1), max_size=8), st.lists(st.integers(0, CODES - 1), max_size=5))
def test_rows_of_each_code_are_listed_code_by_code(rows: list[int], wanted: list[int]):
    index = invert(np.array(rows, dtype=np.int32), CODES)
    found, of = index.of_each(np.array(wanted, dtype=np.int32))
    expected = [(row, at) for at, code in enumerate(wanted) for row, one in enumerate(rows) if one == code]
    assert [*zip(found.tolist(), of.tolist(), strict=True)] == expected


@given(st.integers(0, 20), st.integers(0, 20), st.booleans())
def test_ranges_and_masks_are_read_only(first: int, size: int, yes: bool):
    rows, mask = row_range(first, first + size), constant_mask(size, yes=yes)
    assert rows.tolist() == list(range(first, first + size))
    assert mask.tolist() == [yes] * size
    assert not rows.flags.writeable
    assert not mask.flags.writeable
