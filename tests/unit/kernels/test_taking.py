"""Devices that are taken one after the other, compared with plain loops."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernels.fit import groups_in_turn, taken_in_turn
from tests.tools import reference_kernels
from tests.tools.arrays import amounts, untouched

SETS, DRAWS, COUNTERS = 3, 4, 2
AMOUNT = st.integers(-1, 5)
TABLE = st.lists(st.tuples(*[st.integers(0, 3)] * COUNTERS).map(list), min_size=DRAWS, max_size=DRAWS)
FREE = st.lists(st.tuples(*[AMOUNT] * COUNTERS).map(list), min_size=SETS, max_size=SETS)
DEVICES = st.lists(st.tuples(st.integers(-1, SETS - 1), st.integers(0, DRAWS - 1)), max_size=12)


@given(FREE, TABLE, DEVICES)
def test_taken_in_turn_is_the_plain_definition(
    free: list[list[int]], table: list[list[int]], devices: list[tuple[int, int]]
):
    sets, draws = [one for one, _ in devices], [one for _, one in devices]
    found = untouched(
        taken_in_turn,
        amounts(free, COUNTERS),
        amounts(table, COUNTERS),
        np.array(sets, dtype=np.int32),
        np.array(draws, dtype=np.int32),
    )
    assert found.dtype == np.bool_
    assert found.tolist() == reference_kernels.taken_in_turn(free, table, sets, draws)


@given(st.lists(st.integers(0, 3), max_size=14), st.integers(1, 4))
def test_groups_in_turn_is_the_plain_definition(groups: list[int], count: int):
    found = untouched(groups_in_turn, np.array(groups, dtype=np.intp), count)
    assert found.shape[1] == count
    assert found.tolist() == reference_kernels.groups_in_turn(groups, count)
