"""The most that fits at once, compared with all choices."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernels.packing import max_worth, unique_rows
from tests.tools import reference_kernels
from tests.tools.arrays import EXTREME, amounts

World = tuple[list[list[int]], list[int], list[int], list[int]]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Draw, number and worth of each kind, and the free amounts."""
    width = draw(st.integers(0, 4))
    values = st.integers(0, 4) | st.sampled_from([2**40, EXTREME // 40])
    rows = draw(st.lists(st.lists(values, min_size=width, max_size=width), max_size=5))
    copies = draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows)))
    worth = draw(st.lists(st.integers(0, 5), min_size=len(rows), max_size=len(rows)))
    room = st.integers(-3, 9) | st.sampled_from([2**41, EXTREME])
    return rows, copies, worth, draw(st.lists(room, min_size=width, max_size=width))


@given(worlds())
def test_max_worth_is_that_of_all_choices(world: World):
    rows, copies, worth, left = world
    found = max_worth(amounts(rows, len(left)), copies, worth, np.array(left, dtype=np.int64), 100_000)
    assert found.best == found.bound == reference_kernels.max_worth(rows, copies, worth, left)


@given(worlds(), st.integers(0, 6))
def test_a_search_that_gave_up_bounds_the_exact_result(world: World, budget: int):
    rows, copies, worth, left = world
    found = max_worth(amounts(rows, len(left)), copies, worth, np.array(left, dtype=np.int64), budget)
    assert found.steps <= budget
    assert found.best <= reference_kernels.max_worth(rows, copies, worth, left) <= found.bound


def test_places_exclude_one_another():
    """Three of four slices, starting anywhere: one placement fits, although the sum allows two."""
    rows = [[1, 1, 1, 0], [0, 1, 1, 1]]
    found = max_worth(amounts(rows, 4), [1, 1], [1, 1], np.ones(4, dtype=np.int64), 100)
    assert (found.best, found.bound) == (1, 1)


def test_a_hard_packing_ends_with_bounds():
    rng = np.random.default_rng(3)
    draws = rng.integers(10**6, 10**7, size=(60, 6))
    found = max_worth(draws, [1] * 60, draws[:, 0].tolist(), np.full(6, 10**8), 500)
    assert found.steps == 500
    assert 0 < found.best < found.bound <= 10**8


@given(st.lists(st.lists(st.integers(-2, 2), min_size=3, max_size=3), max_size=8), st.integers(0, 3))
def test_equal_rows_have_one_code(rows: list[list[int]], width: int):
    table = amounts(rows, 3)[:, :width]
    first, codes = unique_rows(table)
    for one, code in enumerate(codes.tolist()):
        assert table[first[code]].tolist() == table[one].tolist()
    assert len(first) == len({tuple(row) for row in table.tolist()})


def test_a_state_reached_again_with_more_worth_is_searched_again():
    rows = [[2, 0], [0, 1], [4, 2], [0, 3], [0, 2]]
    found = max_worth(amounts(rows, 2), [2, 1, 3, 3, 3], [2, 1, 4, 2, 3], np.array([8, 5]), 100)
    assert (found.best, found.bound) == (12, 12)
