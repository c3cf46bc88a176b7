"""`kernels.groups` against a set, and against NumPy for the type and the shape."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from kernels.groups import distinct, distinct_pairs

TYPES = [np.bool_, np.int8, np.uint8, np.int32, np.int64, np.intp, np.uint64]
ANY = st.sampled_from(TYPES).flatmap(lambda dtype: arrays(dtype, array_shapes(min_dims=1, min_side=0)))
FLOATS = arrays(np.float64, array_shapes(), elements=st.floats(allow_nan=False))


@given(ANY | FLOATS)
def test_it_finds_each_value_once_in_order_and_changes_nothing(values: np.ndarray):
    before = values.copy()
    found = distinct(values)
    assert found.tolist() == sorted(set(values.ravel().tolist()))
    usual = np.unique(values)
    assert (found.dtype, found.shape) == (usual.dtype, usual.shape)
    assert np.array_equal(values, before)


@pytest.mark.parametrize("values", [np.array(["b", "a", "b"]), np.array([], dtype="U1")])
def test_it_finds_strings(values: np.ndarray):
    assert distinct(values).tolist() == np.unique(values).tolist()


def test_what_it_returns_is_no_view():
    values = np.arange(3)
    distinct(values)[:] = 7
    assert values.tolist() == [0, 1, 2]


@given(st.lists(st.tuples(st.integers(-2, 3), st.integers(-2, 3))))
def test_it_finds_each_pair_once_in_order(pairs: list[tuple[int, int]]):
    table = np.array(pairs, dtype=np.intp).reshape(-1, 2)
    first, second = distinct_pairs(table[:, 0], table[:, 1])
    assert [*zip(first.tolist(), second.tolist(), strict=True)] == sorted(set(pairs))
    assert first.dtype == second.dtype == np.intp
