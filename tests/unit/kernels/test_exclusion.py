"""Which devices may be held together, compared with plain sets."""

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernels.exclusion import (
    ALL,
    compatible,
    compatible_with,
    count_marks,
    pack_bits,
    shared_by_all,
    shares_a_name,
    unpack_bits,
)
from kernels.types import Bits
from tests.tools import reference_kernels
from tests.tools.arrays import codes, untouched

SCOPES, WIDTH = 3, 2
MARKS = 70
"""More than one word holds"""
NAMES = st.frozensets(st.sampled_from([0, 1, 63, 64, 69]), max_size=4)


class Devices(NamedTuple):
    """Each is in up to two different scopes, and asks for and meets some marks in each."""

    scopes: list[list[int]]
    asks: list[list[frozenset[int]]]
    meets: list[list[frozenset[int]]]
    held: list[bool]


def bits(names: list[list[frozenset[int]]]) -> Bits:
    """(n, K, W)"""
    single = np.zeros((len(names), WIDTH, MARKS), dtype=np.bool_)
    for row, sets in enumerate(names):
        for k, declared in enumerate(sets):
            single[row, k, list(declared)] = True
    return pack_bits(single)


@st.composite
def devices(draw: st.DrawFn) -> Devices:
    count = draw(st.integers(0, 5))
    places = st.lists(st.integers(0, SCOPES - 1), max_size=WIDTH, unique=True)
    scopes = [(draw(places) + [-1] * WIDTH)[:WIDTH] for _ in range(count)]
    asks = [[draw(NAMES) for _ in range(WIDTH)] for _ in range(count)]
    meets = [[draw(NAMES) for _ in range(WIDTH)] for _ in range(count)]
    return Devices(scopes, asks, meets, [draw(st.booleans()) for _ in range(count)])


@given(devices())
def test_what_is_common_is_the_plain_intersection(some: Devices):
    scopes = codes(some.scopes, WIDTH)
    found = untouched(shared_by_all, SCOPES, scopes, bits(some.asks))
    plain = reference_kernels.shared_by_all(SCOPES, some.scopes, some.asks)
    for words, names in zip(found, plain, strict=True):
        if names is None:
            assert (words == ALL).all()
        else:
            assert set(np.flatnonzero(unpack_bits(words, MARKS)).tolist()) == names
    assert untouched(
        shares_a_name, found, scopes, bits(some.meets)
    ).tolist() == reference_kernels.shares_a_name(plain, some.scopes, some.meets)


@given(devices())
def test_counting_is_the_plain_count(some: Devices):
    found = untouched(count_marks, SCOPES, MARKS, codes(some.scopes, WIDTH), bits(some.asks))
    assert found.tolist() == reference_kernels.count_marks(SCOPES, MARKS, some.scopes, some.asks)


@given(devices())
def test_compatible_with_one_device_is_the_plain_definition(some: Devices):
    arrays = codes(some.scopes, WIDTH), bits(some.asks), bits(some.meets)
    for one in range(len(some.scopes)):
        assert untouched(compatible_with, one, *arrays).tolist() == reference_kernels.compatible_with(
            one, *some[:3]
        )


@given(devices())
def test_counts_give_the_same_result_as_all_pairs(some: Devices):
    scopes, asks, meets = codes(some.scopes, WIDTH), bits(some.asks), bits(some.meets)
    held = np.array(some.held, dtype=np.bool_)
    asked = count_marks(SCOPES, MARKS, scopes[held], asks[held])
    missed = count_marks(SCOPES, MARKS, scopes[held], ~meets[held])
    found = untouched(compatible, asked, missed, scopes, asks, meets, held)
    assert found.tolist() == reference_kernels.compatible(*some)


@given(st.lists(st.booleans(), max_size=130))
def test_packing_loses_nothing(single: list[bool]):
    mask = np.array(single, dtype=np.bool_)
    words = pack_bits(mask)
    assert words.shape == (-(-len(single) // 64),)
    assert unpack_bits(words, len(single)).tolist() == single
