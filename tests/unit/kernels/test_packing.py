"""The most that fits at once, compared with all choices."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernels.packing import fitting_mixes, max_worth, suffices, undominated, unique_rows
from tests.tools import naive_mixes, reference_kernels
from tests.tools.arrays import EXTREME, amounts, untouched
from tests.tools.naive_mixes import Counts

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


MANY = 100_000


@st.composite
def full_sets(draw: st.DrawFn) -> tuple[list[int], list[list[int]], list[list[bool]], list[int]]:
    """What is left of a set, draws, kinds of each device, the most of each kind that matters."""
    counters, count, width = draw(st.integers(0, 3)), draw(st.integers(0, 5)), draw(st.integers(1, 3))
    left = draw(st.lists(st.integers(-1, 5), min_size=counters, max_size=counters))
    row = st.lists(st.integers(0, 3), min_size=counters, max_size=counters)
    draws = draw(st.lists(row, min_size=count, max_size=count))
    serves = st.lists(st.booleans(), min_size=width, max_size=width)
    kinds = draw(st.lists(serves, min_size=count, max_size=count))
    return left, draws, kinds, draw(st.lists(st.integers(0, 3), min_size=width, max_size=width))


@given(full_sets())
def test_mixes_are_those_of_trying_every_assignment(
    world: tuple[list[int], list[list[int]], list[list[bool]], list[int]],
):
    left, draws, kinds, most = world
    found = untouched(
        lambda *arrays: fitting_mixes(*arrays, limit=MANY),
        np.array(left, dtype=np.int64),
        amounts(draws, len(left)),
        np.array(kinds, dtype=np.bool_).reshape(len(draws), len(most)),
        np.array(most, dtype=np.intp),
    )
    assert found is not None
    every = {
        tuple(min(count, cap) for count, cap in zip(counts, most, strict=True))
        for counts in naive_mixes.fitting(left, draws, kinds, len(most))
    }
    assert {*map(tuple, found.tolist())} == largest(every)


def test_a_set_with_too_many_mixes_is_given_up():
    draws = np.eye(12, dtype=np.int64)
    kinds = np.ones((12, 1), dtype=np.bool_)
    most = np.array([12], dtype=np.intp)
    assert fitting_mixes(np.ones(12, dtype=np.int64), draws, kinds, most, limit=100) is None


def largest(counts: set[Counts]) -> set[Counts]:
    return {
        one
        for one in counts
        if not any(other != one and all(map(int.__ge__, other, one)) for other in counts)
    }


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[list[Counts]], Counts]:
    width = draw(st.integers(1, 3))
    row = st.tuples(*[st.integers(0, 3)] * width)
    tables = draw(st.lists(st.lists(row, min_size=1, max_size=4), max_size=4))
    return tables, draw(st.tuples(*[st.integers(0, 6)] * width))


@given(questions())
def test_sets_suffice_if_some_combination_of_their_mixes_does(world: tuple[list[list[Counts]], Counts]):
    tables, wanted = world
    arrays = [np.array(table, dtype=np.int64) for table in tables]
    found = suffices(arrays, np.array(wanted, dtype=np.intp), limit=MANY)
    assert found is naive_mixes.enough(tables, wanted)


def test_too_many_mixes_of_several_sets_are_given_up():
    table = np.array([[0, 9], [9, 0], [5, 5]], dtype=np.int64)
    assert suffices([table] * 3, np.array([99, 99], dtype=np.intp), limit=8) is None


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=8))
def test_rows_below_others_are_dropped(rows: list[Counts]):
    found = undominated(np.array(rows, dtype=np.int64)).tolist()
    assert sorted(map(tuple, found)) == sorted(largest(set(rows)))
