"""Arrays for kernels: from lists, drawn at random, and read-only."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from kernels.types import Amounts, Codes

EXTREME = 2**63 - 1


def amounts(rows: Sequence[Sequence[int]], width: int) -> Amounts:
    """(n, width) int64"""
    return np.array(rows, dtype=np.int64).reshape(len(rows), width)


def codes(rows: Sequence[Sequence[int]], width: int) -> Codes:
    """(n, width) int32"""
    return np.array(rows, dtype=np.int32).reshape(len(rows), width)


def untouched(kernel: Callable[..., Any], *arguments: Any) -> Any:
    """Call a kernel with read-only arguments."""
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            argument.setflags(write=False)
    return kernel(*arguments)


class Drawing(NamedTuple):
    """Devices, their draws, and the counter sets."""

    left: list[list[int]]
    table: list[list[int]]
    sets: list[list[int]]
    draws: list[list[int]]
    counters: int
    width: int

    def arrays(self) -> tuple[Amounts, Amounts, Codes, Codes]:
        return (
            amounts(self.left, self.counters),
            amounts(self.table, self.counters),
            codes(self.sets, self.width),
            codes(self.draws, self.width),
        )


NEAR = st.integers(-3, 6)
FAR = st.sampled_from([-EXTREME, -EXTREME + 1, -1, 0, 1, EXTREME - 1, EXTREME])
WANTED = st.integers(0, 5) | st.sampled_from([EXTREME - 1, EXTREME])


@st.composite
def drawings(
    draw: st.DrawFn, *, left: st.SearchStrategy[int] = NEAR | FAR, wanted: st.SearchStrategy[int] = WANTED
) -> Drawing:
    """Small cases: up to 4 sets of up to 3 counters, up to 6 devices that draw from up to 3 sets each."""
    counters, width = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    size, distinct = draw(st.integers(0, 4)), draw(st.integers(1, 4))

    def rows(count: int, length: int, values: st.SearchStrategy[int]) -> list[list[int]]:
        return draw(
            st.lists(st.lists(values, min_size=length, max_size=length), min_size=count, max_size=count)
        )

    devices = draw(st.integers(0, 6))
    sets = rows(devices, width, st.integers(-1, size - 1))
    return Drawing(
        left=rows(size, counters, left),
        table=rows(distinct, counters, wanted),
        sets=sets,
        draws=[
            [-1 if chosen < 0 else draw(st.integers(0, distinct - 1)) for chosen in of_device]
            for of_device in sets
        ],
        counters=counters,
        width=width,
    )
