"""Room, compared with loops over places."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kernels.room import has_room, shortages
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
