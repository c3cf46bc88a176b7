"""Mixes of devices on counter sets, compared with trying everything."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernels.packing import fitting_mixes, suffices, undominated
from tests.tools import naive_mixes
from tests.tools.arrays import amounts, untouched
from tests.tools.naive_mixes import Counts

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
