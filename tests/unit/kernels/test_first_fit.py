"""Devices that are taken in order, compared with loops."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernels.fit import Shelf, fits, take_in_order
from kernels.groups import invert
from tests.tools.examples import examples


def slow(left: list[list[int]], drawn: list[list[tuple[int, list[int]]]], rows: list[int], most: int) -> Any:
    """Each device in turn, if all that it draws is left; and what is left then."""
    taken: list[int] = []
    for row in rows:
        enough = all(
            need == 0 or need <= have
            for number, draw in drawn[row]
            for need, have in zip(draw, left[number], strict=True)
        )
        if enough and len(taken) < most:
            taken.append(row)
            for number, draw in drawn[row]:
                left[number] = [have - need for have, need in zip(left[number], draw, strict=True)]
    return taken, left


@st.composite
def shelves(draw: Any) -> tuple[Shelf, list[int], int]:
    devices, number, width = draw(st.integers(1, 8)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    wide = draw(st.integers(0, 2))

    def amounts(rows: int, most: int) -> Any:
        found = draw(st.lists(st.integers(0, most), min_size=rows * width, max_size=rows * width))
        return np.array(found, dtype=np.int64).reshape(rows, width)

    table, left = amounts(4, 3), amounts(number, 6)
    sets = np.full((devices, wide), -1, dtype=np.int32)
    for row in range(devices):
        used = draw(st.lists(st.integers(0, number - 1), unique=True, max_size=wide))
        sets[row, : len(used)] = used
    draws = np.array(
        draw(st.lists(st.integers(0, 3), min_size=devices * wide, max_size=devices * wide)), dtype=np.int32
    ).reshape(devices, wide)
    shelf = Shelf(fits(left, table, sets, draws), left, table, sets, draws, invert(sets, number))
    rows = draw(st.lists(st.integers(0, devices - 1), unique=True))
    return shelf, rows, draw(st.integers(0, devices))


@examples(150)
@given(shelves())
def test_first_fit_takes_what_a_loop_takes(asked: tuple[Shelf, list[int], int]):
    before, rows, most = asked
    shelf = before.copy()
    drawn = [
        [
            (number, before.table[draw].tolist())
            for number, draw in zip(before.sets[row].tolist(), before.draws[row].tolist(), strict=True)
            if number >= 0
        ]
        for row in range(len(before.open))
    ]
    taken, left = slow(before.left.tolist(), drawn, rows, most)
    assert take_in_order(shelf, np.array(rows, dtype=np.intp), most) == taken
    assert shelf.left.tolist() == left
    expected = fits(shelf.left, shelf.table, shelf.sets, shelf.draws)
    expected[taken] = False
    assert shelf.open.tolist() == expected.tolist()
