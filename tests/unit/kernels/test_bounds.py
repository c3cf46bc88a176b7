"""Bounds, compared with all choices."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernels.bounds import least_draw, max_matching
from tests.tools import reference_kernels
from tests.tools.arrays import EXTREME, amounts, untouched


@st.composite
def choices(draw: st.DrawFn) -> tuple[list[list[int]], int, int, int]:
    """Draws of devices, number of idle devices, number of wanted devices, number of counters."""
    width = draw(st.integers(0, 3))
    values = st.integers(0, 5) | st.sampled_from([2**40, EXTREME // 6])
    rows = draw(st.lists(st.lists(values, min_size=width, max_size=width), max_size=5))
    idle = draw(st.integers(0, 3))
    return rows, idle, draw(st.integers(0, len(rows) + idle)), width


@given(choices())
def test_no_choice_draws_less_than_the_cheapest(world: tuple[list[list[int]], int, int, int]):
    """And for each counter on its own, some choice draws no more."""
    rows, idle, need, width = world
    found = untouched(least_draw, amounts(rows, width), idle, need)
    assert found.dtype == np.int64
    assert found.tolist() == reference_kernels.least_draw(rows, idle, need, width)


def test_idle_devices_cost_nothing():
    assert least_draw(amounts([[7], [9]], 1), 2, 2).tolist() == [0]
    assert least_draw(amounts([[7], [9]], 1), 1, 2).tolist() == [7]
    assert least_draw(amounts([], 2), 1, 1).tolist() == [0, 0]


@st.composite
def demands(draw: st.DrawFn) -> tuple[list[int], list[list[bool]], list[int]]:
    """Requests, the kinds that suit each, and the number of each kind; at most 4 devices are wanted."""
    kinds = draw(st.integers(0, 4))
    wanted = draw(st.lists(st.integers(0, 3), max_size=4).filter(lambda counts: sum(counts) <= 4))
    row = st.lists(st.booleans(), min_size=kinds, max_size=kinds)
    options = draw(st.lists(row, min_size=len(wanted), max_size=len(wanted)))
    return wanted, options, draw(st.lists(st.integers(0, 3), min_size=kinds, max_size=kinds))


@given(demands())
def test_a_matching_is_the_largest_assignment(
    world: tuple[list[int], list[list[bool]], list[int]],
):
    wanted, options, room = world
    found = untouched(
        max_matching,
        np.array(wanted, dtype=np.intp),
        np.array(options, dtype=np.bool_).reshape(len(wanted), len(room)),
        np.array(room, dtype=np.intp),
    )
    assert found == reference_kernels.max_matching(wanted, options, room)


def test_an_earlier_request_moves_for_a_later_one():
    """The first takes the kind that only the second can use, and must switch to another, in two steps."""
    options = np.array([[True, True, False], [True, False, True], [True, False, False]])
    ones = np.ones(3, dtype=np.intp)
    assert max_matching(ones, options, ones) == 3


def test_without_kinds_nothing_is_assigned():
    assert (
        max_matching(np.array([2], dtype=np.intp), np.zeros((1, 0), dtype=np.bool_), np.zeros(0, np.intp))
        == 0
    )
    assert max_matching(np.zeros(0, np.intp), np.zeros((0, 2), dtype=np.bool_), np.ones(2, np.intp)) == 0
