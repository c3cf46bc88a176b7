"""Weights by which groups cannot give what is wanted, against all choices and all small weights."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernels.covering import LARGEST, separating
from tests.tools.examples import examples

KINDS = 3
COUNTS = st.tuples(*[st.integers(0, 3)] * (KINDS - 1), st.sampled_from([0, -1]))
TABLES = st.lists(
    st.tuples(st.lists(COUNTS, min_size=1, max_size=3), st.integers(1, 2)), min_size=1, max_size=2
)
WANTED = st.tuples(*[st.integers(0, 9)] * (KINDS - 1), st.integers(-2, -1))


@examples(300)
@given(WANTED, TABLES)
def test_weights_are_found_wherever_small_ones_prove_it_and_never_for_what_can_be_given(
    wanted: tuple[int, ...], tables: list[tuple[list[tuple[int, ...]], int]]
):
    found = separating(np.array(wanted), [np.array(one) for one, _ in tables], [size for _, size in tables])
    nothing = (0,) * KINDS
    ways = product(*[[nothing, *one] for one, size in tables for _ in range(size)])
    sums = [[sum(column) for column in zip(*way, strict=True)] for way in ways]
    fits = any((np.array(one) >= wanted).all() for one in sums)

    def worth(weights: tuple[int, ...], one: tuple[int, ...]) -> int:
        return sum(weight * count for weight, count in zip(weights, one, strict=True))

    def most(weights: tuple[int, ...]) -> int:
        return sum(size * max(0, *[worth(weights, vector) for vector in one]) for one, size in tables)

    proved = any(worth(w, wanted) > most(w) for w in product(range(4), repeat=KINDS))
    assert not (fits and found)
    assert found or not proved
    if found is not None:
        weights = tuple(found[0].tolist())
        assert 0 <= min(weights) <= max(weights) <= LARGEST
        assert worth(weights, wanted) > most(weights) == found[1]
