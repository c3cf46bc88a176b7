"""Free counters and the devices that still fit, compared with plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.fit import Fitting, draw_one, fits, fits_gathered, fits_required, held_back, required, total_draw
from tests.tools import reference_kernels
from tests.tools.arrays import EXTREME, Drawing, amounts, codes, drawings, untouched

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
    assert found.tolist() == reference_kernels.total_draw(
        len(world.left), world.table, world.sets, world.draws
    )


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


def test_a_device_that_wants_nothing_of_an_exhausted_counter_fits():
    left, table = amounts([[-1, 2]], 2), amounts([[0, 2]], 2)
    assert fits(left, table, codes([[0]], 1), codes([[0]], 1)).tolist() == [True]


def test_a_device_that_draws_from_no_set_fits():
    left, table = amounts([[-1]], 1), amounts([[1]], 1)
    assert fits(left, table, codes([[-1]], 1), codes([[-1]], 1)).tolist() == [True]


def test_the_largest_amount_fits_only_into_itself():
    left, table = amounts([[EXTREME], [EXTREME - 1], [-EXTREME]], 1), amounts([[EXTREME]], 1)
    found = fits(left, table, codes([[0], [1], [2]], 1), codes([[0], [0], [0]], 1))
    assert found.tolist() == [True, False, False]


def test_a_set_that_is_named_twice_is_drawn_from_twice():
    table, sets, draws = amounts([[2]], 1), codes([[0, 0]], 2), codes([[0, 0]], 2)
    assert total_draw(1, table, sets, draws).tolist() == [[4]]
    assert draw_one(amounts([[5]], 1), table, sets[0], draws[0]).tolist() == [[1]]


def test_without_devices_the_result_is_empty():
    nobody = codes([], 2)
    assert fits(amounts([[1]], 1), amounts([[1]], 1), nobody, nobody).tolist() == []
    assert total_draw(1, amounts([[1]], 1), nobody, nobody).tolist() == [[0]]


def test_without_sets_every_device_fits():
    none = codes([[], []], 0)
    assert fits(amounts([], 0), amounts([], 0), none, none).tolist() == [True, True]
    assert total_draw(0, amounts([], 3), none, none).shape == (0, 3)
