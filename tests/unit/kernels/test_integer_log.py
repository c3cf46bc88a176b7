"""A log of integers, compared with a plain list."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import integer_log
from kernels.integer_log import IntegerLog

PIECES = st.lists(st.tuples(st.lists(st.integers(0, 99), max_size=6), st.booleans()), max_size=12)


@given(PIECES, st.integers(0, 4), st.data())
def test_every_part_is_that_of_a_plain_list(
    pieces: list[tuple[list[int], bool]], most: int, data: st.DataObject
):
    """Whatever came as a list or as an array, and whatever is in the array by now."""
    log, expected = IntegerLog(), list[int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(integer_log, "MOST_RECENT", most)
        for values, as_list in pieces:
            expected += values
            assert log.add(values if as_list else np.array(values, dtype=np.intp)) == len(expected)
            end = data.draw(st.integers(0, len(expected)))
            start = data.draw(st.integers(0, end))
            assert log.between(start, end).tolist() == expected[start:end]
            assert log.listed(start, end) == expected[start:end]
    assert len(log) == len(expected)


def test_a_log_outgrows_its_first_array():
    log, size = IntegerLog(), 3 * integer_log.ROOM
    log.add([7])
    log.add(np.arange(size))
    log.add([8])
    assert log.between(0, len(log)).tolist() == [7, *range(size), 8]


def test_what_a_reader_has_seen_stays():
    """A reader in another thread may still use an answer while more is added."""
    log = IntegerLog()
    log.add(np.array([1, 2]))
    log.add([3])
    stored, recent = log.between(0, 2), log.between(1, 3)
    for number in range(2 * integer_log.ROOM):
        log.add([number])
    assert (stored.tolist(), recent.tolist()) == ([1, 2], [2, 3])


def test_adding_does_not_keep_the_callers_list():
    log, values = IntegerLog(), [1, 2]
    log.add(values)
    values[0] = 9
    assert log.listed(0, 2) == [1, 2]
