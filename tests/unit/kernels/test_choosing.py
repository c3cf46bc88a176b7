"""The first thing at each place, against a loop."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernels.domains import NONE, Spans, first_at_each, leading


@given(
    st.integers(1, 6).flatmap(
        lambda size: st.tuples(
            st.just(size),
            st.lists(st.tuples(st.integers(0, 8), st.integers(0, size - 1)), unique=True),
            st.lists(st.lists(st.integers(NONE, 8), min_size=size, max_size=size), max_size=3),
        )
    )
)
def test_the_first_thing_at_each_place(drawn: tuple[int, list[tuple[int, int]], list[list[int]]]):
    size, there, taken = drawn
    there.sort()
    expected = []
    for place in range(size):
        left = [thing for thing, at in there if at == place and thing not in [gone[place] for gone in taken]]
        expected.append(min(left, default=NONE))
    found = first_at_each(
        np.array([thing for thing, _ in there], dtype=np.int32),
        np.array([place for _, place in there], dtype=np.intp),
        size,
        [np.array(gone, dtype=np.int32) for gone in taken],
    )
    assert found.tolist() == expected


@given(st.lists(st.integers(0, 4)), st.integers(1, 3))
def test_the_first_of_each_group(groups: list[int], most: int):
    expected = [at for at, group in enumerate(groups) if groups[:at].count(group) < most]
    assert leading(np.array(groups, dtype=np.int32), most).tolist() == expected


@given(st.lists(st.lists(st.integers(0, 9)), min_size=1), st.data())
def test_lists_are_read_in_turn(lists: list[list[int]], data: st.DataObject):
    numbers = data.draw(st.lists(st.integers(0, len(lists) - 1)))
    expected = [(at, place) for at, number in enumerate(numbers) for place in lists[number]]
    spans = Spans.joined([np.array(one, dtype=np.intp) for one in lists])
    which, places = spans.of(np.array(numbers, dtype=np.intp))
    assert list(zip(which.tolist(), places.tolist(), strict=True)) == expected
