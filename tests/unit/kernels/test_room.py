"""Room, compared with loops over places."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kernels.fit import copies, has_room, shortages
from kernels.types import Amounts, Mask

LARGE = 2**62 - 1
AMOUNT = st.one_of(st.integers(0, 4), st.sampled_from([LARGE - 1, LARGE]))


def short_by_loops(total: Amounts, used: Amounts, wanted: Amounts, waived: Mask) -> list[list[bool]]:
    """The rule, place by place, in unbounded integers."""
    return [
        [
            int(wanted[r]) > 0
            and int(used[r, n]) + int(wanted[r]) > int(total[r, n])
            and not (waived[r] and total[r, n] == 0)
            for n in range(total.shape[1])
        ]
        for r in range(total.shape[0])
    ]


@st.composite
def rooms(draw: st.DrawFn) -> tuple[Amounts, Amounts, Amounts, Mask]:
    resources, places = draw(st.integers(0, 4)), draw(st.integers(0, 6))
    total, used = (draw(arrays(np.int64, (resources, places), elements=AMOUNT)) for _ in range(2))
    wanted = draw(arrays(np.int64, resources, elements=AMOUNT))
    return total, used, wanted, draw(arrays(np.bool_, resources))


@given(rooms())
def test_room_is_what_the_rule_says_of_each_place(room: tuple[Amounts, Amounts, Amounts, Mask]):
    total, used, wanted, waived = room
    expected = short_by_loops(total, used, wanted, waived)
    short = shortages(total, used, wanted, waived)
    assert short.tolist() == expected
    fits = has_room(total, used, wanted, waived)
    assert fits.tolist() == [not any(row[n] for row in expected) for n in range(total.shape[1])]


def test_unwanted_resources_are_not_checked():
    total, used = np.array([[1], [0]]), np.array([[0], [9]])
    assert has_room(total, used, np.array([1, 0]), np.zeros(2, dtype=np.bool_)).tolist() == [True]


@given(rooms())
def test_copies_are_counted_by_taking_one_after_the_other(room: tuple[Amounts, Amounts, Amounts, Mask]):
    total, used, wanted, waived = room
    free, wanted = np.minimum(total - used, 9), np.minimum(wanted, 3)
    expected = []
    for n in range(total.shape[1]):
        left, count = free[:, n].copy(), 0
        while wanted.any() and has_room(left[:, None].clip(0), 0 * left[:, None], wanted, waived & False)[0]:
            left, count = left - wanted, count + 1
        expected.append(count if wanted.any() else np.iinfo(np.int64).max)
    assert copies(free, wanted).tolist() == expected
