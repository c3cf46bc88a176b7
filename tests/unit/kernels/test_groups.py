"""Reductions over groups, compared with plain loops."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernels.groups import count_changes, group_code, group_min
from tests.tools import reference_kernels
from tests.tools.arrays import FAR, NEAR, amounts, untouched

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


def test_a_group_without_rows_has_nothing_in_common():
    nobody = np.zeros(0, dtype=np.intp)
    assert group_min(amounts([], 1), nobody, 2).tolist() == [[0], [0]]
    assert group_code(np.zeros(0, dtype=np.int32), nobody, 2).tolist() == [-1, -1]
