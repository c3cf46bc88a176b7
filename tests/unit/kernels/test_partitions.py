"""Overlapping sets: arrays against loops."""

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernels.shares import rank_by_remaining, remaining_sets, total_weight
from kernels.types import Mask
from tests.tools import reference_shares as reference
from tests.tools.arrays import untouched

MEMBERS = 6


class Drawn(NamedTuple):
    """Sets, which of them can be picked, and picks."""

    sets: list[set[int]]
    alive: list[bool]
    picks: list[int]
    values: list[int]


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    sets = draw(st.lists(st.sets(st.integers(0, MEMBERS - 1), min_size=1), min_size=1, max_size=7))
    n = len(sets)
    alive = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    picks = draw(st.lists(st.integers(0, n - 1), max_size=5))
    values = draw(st.lists(st.integers(0, 3) | st.just(2**59), min_size=n, max_size=n))
    return Drawn(sets, alive, picks, values)


def left(case: Drawn) -> Mask:
    members = np.array([[m in one for m in range(MEMBERS)] for one in case.sets], dtype=np.bool_)
    alive, picks = np.array(case.alive, dtype=np.bool_), np.array(case.picks, dtype=np.intp)
    found: Mask = untouched(remaining_sets, members, alive, picks)
    return found


@given(drawn())
def test_remaining_sets_match_the_reference(case: Drawn):
    assert left(case).tolist() == reference.remaining_sets(case.sets, case.alive, case.picks)


@given(drawn())
def test_total_weight_matches_the_reference(case: Drawn):
    remaining = left(case)
    small = [value % 1000 for value in case.values]
    found = untouched(total_weight, remaining, np.array(small, dtype=np.int64))
    assert found.tolist() == reference.total_weight(remaining.tolist(), small)


@given(drawn())
def test_the_ranks_match_the_reference(case: Drawn):
    remaining = left(case)
    sizes = [len(one) for one in case.sets]
    worth = np.array(case.values, dtype=np.int64)
    found = untouched(rank_by_remaining, remaining, np.array(sizes, dtype=np.int64), worth)
    assert found.tolist() == reference.rank_by_remaining(remaining.tolist(), sizes, case.values)
