"""Who has to leave for a device, against loops over all of them."""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernels.bounds import forced, freed_draws, nth_of_group, sums_of_group, whole
from tests.tools.examples import examples

SMALL = st.integers(0, 3)


@st.composite
def fleets(draw: st.DrawFn) -> dict[str, np.ndarray]:
    """Held devices with their units, devices that are wanted, and what the sets have left."""
    counters, sets, kinds = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    held, wanted, places = draw(st.integers(0, 5)), draw(st.integers(1, 4)), draw(st.integers(1, 2))

    def table(rows: int, columns: int, low: int, high: int) -> np.ndarray:
        cells = draw(st.lists(st.integers(low, high), min_size=rows * columns, max_size=rows * columns))
        return np.array(cells, dtype=np.int64).reshape(rows, columns)

    def drawing(rows: int) -> tuple[np.ndarray, np.ndarray]:
        of = [draw(st.permutations(range(-1, sets)))[:places] for _ in range(rows)]
        chosen = np.array(of, dtype=np.int32).reshape(rows, places)
        return chosen, np.where(chosen >= 0, table(rows, places, 0, kinds - 1), -1).astype(np.int32)

    held_sets, held_draws = drawing(held)
    sets_of, draws_of = drawing(wanted)
    units = np.array([draw(st.integers(0, 3)) for _ in range(held)], dtype=np.intp)
    return {
        "left": table(sets, counters, -1, 2),
        "table": table(kinds, counters, 0, 2),
        "held_sets": held_sets,
        "held_draws": held_draws,
        "units": units,
        "sets": sets_of,
        "draws": draws_of,
    }


def left_without(case: dict[str, np.ndarray], gone: tuple[int, ...]) -> np.ndarray:
    """What is left of each set when some units are gone."""
    left = case["left"].copy()
    for sets, draws, unit in zip(case["held_sets"], case["held_draws"], case["units"], strict=True):
        for number, row in zip(sets, draws, strict=True):
            if number >= 0 and unit in gone:
                left[number] += case["table"][row]
    return left


def fits(case: dict[str, np.ndarray], at: int, gone: tuple[int, ...]) -> bool:
    left = left_without(case, gone)
    return all(
        want == 0 or want <= have
        for number, row in zip(case["sets"][at], case["draws"][at], strict=True)
        if number >= 0
        for want, have in zip(case["table"][row], left[number], strict=True)
    )


@given(fleets())
@examples(60)
def test_a_unit_is_forced_if_no_set_without_it_is_enough(case: dict[str, np.ndarray]):
    freed = freed_draws(case["held_sets"], case["held_draws"], case["table"], case["units"])
    units = tuple(sorted(set(case["units"].tolist())))
    most = left_without(case, units)
    device, unit = forced(most, case["table"], case["sets"], case["draws"], freed)
    found = set(zip(device.tolist(), unit.tolist(), strict=True))
    for at in range(len(case["sets"])):
        if not fits(case, at, units):
            continue
        enough = [
            gone for n in range(len(units) + 1) for gone in combinations(units, n) if fits(case, at, gone)
        ]
        for one in units:
            assert ((at, one) in found) == all(one in gone for gone in enough)


@given(st.lists(st.tuples(SMALL, SMALL), max_size=12), st.integers(1, 3))
@examples(40)
def test_the_smallest_values_of_groups(pairs: list[tuple[int, int]], n: int):
    groups = np.array([group for group, _ in pairs], dtype=np.intp)
    values = np.array([value for _, value in pairs], dtype=float)
    nth, sums = nth_of_group(groups, values, n, 4), sums_of_group(groups, values, n, 4)
    for group in range(4):
        smallest = sorted(value for other, value in pairs if other == group)[:n]
        enough = len(smallest) == n
        assert nth[group] == (smallest[-1] if enough else np.inf)
        assert sums[group] == (sum(smallest) if enough else np.inf)


def test_thirds_of_large_numbers_add_up_to_the_whole():
    part = (2**31 + 5) / 3
    assert whole(np.array([part + part + part, 0.0])).tolist() == [2**31 + 5, 0.0]


def test_a_number_that_no_group_has_takes_no_memory():
    groups, values = np.array([0, 0, 1]), np.array([1.0, 2.0, 3.0])
    assert np.isinf(nth_of_group(groups, values, 10**12, 2)).all()
    assert np.isinf(sums_of_group(groups, values, 10**12, 2)).all()
