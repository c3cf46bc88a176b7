"""Free counters and the devices that still fit, compared with plain loops."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kernels.bounds import max_worth, unique_rows
from kernels.fit import (
    Fitting,
    Shelf,
    copies,
    draw_one,
    fits,
    fits_gathered,
    fits_required,
    groups_in_turn,
    held_back,
    required,
    shortages,
    take_in_order,
    taken_in_turn,
    total_draw,
)
from kernels.groups import invert
from kernels.types import Amounts, Mask
from tests.tools import reference_kernels
from tests.tools.arrays import EXTREME, Drawing, amounts, drawings, untouched
from tests.tools.examples import examples

SMALL = st.integers(-5, 5)
HUGE = st.sampled_from([0, 1, 2**40, EXTREME // 40])
"""Amounts that can be summed over a whole drawing without overflow."""


@given(drawings())
def test_fits_is_the_plain_definition(world: Drawing):
    """Also where the difference of free and wanted amounts would overflow int64."""
    expected = reference_kernels.fits(world.left, world.table, world.sets, world.draws)
    left, table, sets, draws = world.arrays()
    many = sets.repeat(50, axis=0), draws.repeat(50, axis=0)  # enough rows for the grid of all pairs
    found = untouched(fits, left, table, *many)
    assert found.dtype == np.bool_
    assert found.tolist() == [fine for fine in expected for _ in range(50)]
    for form in (fits, fits_gathered):
        assert untouched(form, left, table, sets, draws).tolist() == expected


@given(drawings())
def test_required_amounts_give_the_same_result_for_devices_with_one_set(world: Drawing):
    left, table, _, draws = world.arrays()
    for number in range(len(left)):
        rows = draws[draws >= 0]
        lowest = untouched(required, table, rows)
        found = untouched(fits_required, left[number], lowest)
        alone, drawn_there = np.full((len(rows), 1), number, dtype=np.int32), rows[:, None]
        expected = reference_kernels.fits(world.left, world.table, alone.tolist(), drawn_there.tolist())
        assert found.tolist() == expected


@given(drawings(), st.integers(1, 3))
def test_remembered_answers_are_the_answers(world: Drawing, most: int):
    """Also when there are more than are kept, and when what was asked about changes afterwards."""
    left, table, _, draws = world.arrays()
    needed = required(table, draws[draws >= 0])
    fitting = Fitting(needed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kernels.fit.MOST_ANSWERS", most)
        for _ in range(2):
            for free in left:
                asked = free.copy()
                found = fitting.of(asked)
                asked[:] = 0
                assert found.tolist() == fits_required(free, needed).tolist()
                assert not found.flags.writeable


@given(drawings(wanted=SMALL | HUGE))
def test_total_draw_is_the_plain_definition(world: Drawing):
    _, table, sets, draws = world.arrays()
    found = untouched(total_draw, len(world.left), table, sets, draws)
    assert found.dtype == np.int64
    told = found.tolist()
    assert told == reference_kernels.total_draw(len(world.left), world.table, world.sets, world.draws)


@given(st.lists(st.tuples(SMALL | HUGE, st.integers(0, 5) | HUGE), min_size=1, max_size=12))
def test_what_is_held_back_is_the_plain_definition(pairs: list[tuple[int, int]]):
    free, kept = ([[pair[at] for pair in pairs]] for at in (0, 1))
    found = untouched(held_back, amounts(free, len(pairs)), amounts(kept, len(pairs)))
    assert found.tolist() == reference_kernels.held_back(free, kept)
    assert (found >= np.minimum(amounts(free, len(pairs)), 0)).all()


@given(drawings(left=SMALL | HUGE, wanted=SMALL | HUGE))
def test_draw_one_is_the_plain_definition(world: Drawing):
    left, table, sets, draws = world.arrays()
    for of_device, rows in zip(sets, draws, strict=True):
        found = untouched(draw_one, left, table, of_device, rows)
        assert found.tolist() == reference_kernels.draw_one(
            world.left, world.table, of_device.tolist(), rows.tolist()
        )
        assert not np.shares_memory(found, left)


@given(drawings(left=SMALL | HUGE, wanted=SMALL | HUGE))
def test_drawing_one_by_one_equals_the_total_draw(world: Drawing):
    left, table, sets, draws = world.arrays()
    after = left
    for of_device, rows in zip(sets, draws, strict=True):
        after = draw_one(after, table, of_device, rows)
    assert (after == left - total_draw(len(left), table, sets, draws)).all()


SETS, DRAWS, COUNTERS = 3, 4, 2
AMOUNT = st.integers(-1, 5)
TABLE = st.lists(st.tuples(*[st.integers(0, 3)] * COUNTERS).map(list), min_size=DRAWS, max_size=DRAWS)
FREE = st.lists(st.tuples(*[AMOUNT] * COUNTERS).map(list), min_size=SETS, max_size=SETS)
DEVICES = st.lists(st.tuples(st.integers(-1, SETS - 1), st.integers(0, DRAWS - 1)), max_size=12)


@given(FREE, TABLE, DEVICES)
def test_taken_in_turn_is_the_plain_definition(
    free: list[list[int]], table: list[list[int]], devices: list[tuple[int, int]]
):
    sets, draws = [one for one, _ in devices], [one for _, one in devices]
    found = untouched(
        taken_in_turn,
        amounts(free, COUNTERS),
        amounts(table, COUNTERS),
        np.array(sets, dtype=np.int32),
        np.array(draws, dtype=np.int32),
    )
    assert found.dtype == np.bool_
    assert found.tolist() == reference_kernels.taken_in_turn(free, table, sets, draws)


@given(st.lists(st.integers(0, 3), max_size=14), st.integers(1, 4))
def test_groups_in_turn_is_the_plain_definition(groups: list[int], count: int):
    found = untouched(groups_in_turn, np.array(groups, dtype=np.intp), count)
    assert found.shape[1] == count
    assert found.tolist() == reference_kernels.groups_in_turn(groups, count)


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


LARGE = 2**62 - 1
AMOUNT_OR_NONE = st.one_of(st.integers(0, 4), st.sampled_from([LARGE - 1, LARGE]))


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
    total, used = (draw(arrays(np.int64, (resources, places), elements=AMOUNT_OR_NONE)) for _ in range(2))
    wanted = draw(arrays(np.int64, resources, elements=AMOUNT_OR_NONE))
    return total, used, wanted, draw(arrays(np.bool_, resources))


@given(rooms())
def test_room_is_what_the_rule_says_of_each_place(room: tuple[Amounts, Amounts, Amounts, Mask]):
    total, used, wanted, waived = room
    expected = short_by_loops(total, used, wanted, waived)
    short = shortages(total, used, wanted, waived)
    assert short.tolist() == expected


@given(rooms())
def test_copies_are_counted_by_taking_one_after_the_other(room: tuple[Amounts, Amounts, Amounts, Mask]):
    total, used, wanted, _ = room
    free, wanted = np.minimum(total - used, 9), np.minimum(wanted, 3)
    expected = []
    for n in range(total.shape[1]):
        left, count = free[:, n].copy(), 0
        while wanted.any() and (left >= wanted)[wanted > 0].all():
            left, count = left - wanted, count + 1
        expected.append(count if wanted.any() else np.iinfo(np.int64).max)
    assert copies(free, wanted).tolist() == expected


# -- The most that fits at once, compared with all choices.


World = tuple[list[list[int]], list[int], list[int], list[int]]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Draw, number and worth of each kind, and the free amounts."""
    width = draw(st.integers(0, 4))
    values = st.integers(0, 4) | st.sampled_from([2**40, EXTREME // 40])
    rows = draw(st.lists(st.lists(values, min_size=width, max_size=width), max_size=5))
    copies = draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows)))
    worth = draw(st.lists(st.integers(0, 5), min_size=len(rows), max_size=len(rows)))
    room = st.integers(-3, 9) | st.sampled_from([2**41, EXTREME])
    return rows, copies, worth, draw(st.lists(room, min_size=width, max_size=width))


@given(worlds())
def test_max_worth_is_that_of_all_choices(world: World):
    rows, copies, worth, left = world
    found = max_worth(amounts(rows, len(left)), copies, worth, np.array(left, dtype=np.int64), 100_000)
    assert found.best == found.bound == reference_kernels.max_worth(rows, copies, worth, left)


@given(worlds(), st.integers(0, 6))
def test_a_search_that_gave_up_bounds_the_exact_result(world: World, budget: int):
    rows, copies, worth, left = world
    found = max_worth(amounts(rows, len(left)), copies, worth, np.array(left, dtype=np.int64), budget)
    assert found.steps <= budget
    assert found.best <= reference_kernels.max_worth(rows, copies, worth, left) <= found.bound


def test_a_hard_packing_ends_with_bounds():
    rng = np.random.default_rng(3)
    draws = rng.integers(10**6, 10**7, size=(60, 6))
    found = max_worth(draws, [1] * 60, draws[:, 0].tolist(), np.full(6, 10**8), 500)
    assert found.steps == 500
    assert 0 < found.best < found.bound <= 10**8


@given(st.lists(st.lists(st.integers(-2, 2), min_size=3, max_size=3), max_size=8), st.integers(0, 3))
def test_equal_rows_have_one_code(rows: list[list[int]], width: int):
    table = amounts(rows, 3)[:, :width]
    first, codes = unique_rows(table)
    for one, code in enumerate(codes.tolist()):
        assert table[first[code]].tolist() == table[one].tolist()
    assert len(first) == len({tuple(row) for row in table.tolist()})


def test_a_state_reached_again_with_more_worth_is_searched_again():
    rows = [[2, 0], [0, 1], [4, 2], [0, 3], [0, 2]]
    found = max_worth(amounts(rows, 2), [2, 1, 3, 3, 3], [2, 1, 4, 2, 3], np.array([8, 5]), 100)
    assert (found.best, found.bound) == (12, 12)
