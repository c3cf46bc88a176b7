"""Reductions over groups, compared with plain loops."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernels.groups import group_code, group_min
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


def test_a_group_without_rows_has_nothing_in_common():
    nobody = np.zeros(0, dtype=np.intp)
    assert group_min(amounts([], 1), nobody, 2).tolist() == [[0], [0]]
    assert group_code(np.zeros(0, dtype=np.int32), nobody, 2).tolist() == [-1, -1]
