"""Bounds, compared with all choices."""

from itertools import combinations
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernels import bounds
from kernels.bounds import (
    UNLIMITED,
    forced,
    freed_draws,
    nth_of_group,
    sums_of_group,
    whole,
)
from kernels.types import Amounts, Codes, Mask
from tests.tools.examples import examples


def per_domain(each: Amounts, codes: Codes, size: int) -> list[int]:
    """See the kernel."""
    return [sum(int(n) for n, code in zip(each, codes, strict=True) if code == g) for g in range(size)]


def apart(each: Amounts, codes: Codes, groups: Codes) -> list[int]:
    """See the kernel."""
    seen, found = set(), []
    for number, code, group in zip(each.tolist(), codes.tolist(), groups.tolist(), strict=True):
        if group <= 0 or number <= 0 or code < 0:
            found.append(number)
        else:
            found.append(0 if (code, group) in seen else 1)
            seen.add((code, group))
    return found


def most_with(supply: Amounts, needs: Amounts) -> list[int]:
    """See the kernel."""
    found = []
    for amount in supply.tolist():
        modest = sorted(needs.tolist())
        found.append(max(n for n in range(len(modest) + 1) if sum(modest[:n]) <= amount))
    return found


def devices_of_sets(left: Amounts, least: Amounts, devices: Amounts) -> list[int]:
    """See the kernel."""
    return [
        min([max(a, 0) // b for a, b in zip(has, draws, strict=True) if b > 0] + [number])
        for has, draws, number in zip(left.tolist(), least.tolist(), devices.tolist(), strict=True)
    ]


def room_for(free: Amounts, wanted: Amounts, among: Mask) -> list[int]:
    """See the kernel."""
    return [
        min(
            [max(a, 0) // b for a, b in zip(free[:, n].tolist(), wanted.tolist(), strict=True) if b]
            + [UNLIMITED]
        )
        if among[n]
        else 0
        for n in range(free.shape[1])
    ]


def few_amounts(shape: tuple[int, ...], least: int = 0, most: int = 12) -> st.SearchStrategy[Any]:
    size = int(np.prod(shape))
    numbers = st.lists(st.integers(least, most), min_size=size, max_size=size)
    return numbers.map(lambda found: np.array(found, dtype=np.int64).reshape(shape))


def codes(size: int, least: int) -> st.SearchStrategy[Any]:
    return few_amounts((size,), least, 3).map(lambda found: found.astype(np.int32))


@st.composite
def placed(draw: Any) -> tuple[Any, Any, Any]:
    size = draw(st.integers(0, 8))
    return draw(few_amounts((size,), 0, 4)), draw(codes(size, -1)), draw(codes(size, 0))


@examples(60)
@given(placed())
def test_domains_hold_what_their_places_hold(world: Any):
    each, of_place, groups = world
    assert bounds.per_domain(each, of_place, 4).tolist() == per_domain(each, of_place, 4)
    before = each.copy()
    assert bounds.apart(each, of_place, groups).tolist() == apart(each, of_place, groups)
    assert each.tolist() == before.tolist()


@examples(60)
@given(few_amounts((4,), 0, 30), st.integers(0, 6).flatmap(lambda size: few_amounts((size,))))
def test_the_modest_come_first(supply: Any, needs: Any):
    assert bounds.most_with(supply, needs).tolist() == most_with(supply, needs)


@examples(60)
@given(few_amounts((3, 2), -5, 20), few_amounts((3, 2), 0, 5), few_amounts((3,)))
def test_counters_limit_the_devices_of_a_set(left: Any, least: Any, devices: Any):
    found = bounds.devices_of_sets(left, least, devices)
    assert found.tolist() == devices_of_sets(left, least, devices)


@examples(60)
@given(few_amounts((2, 4), -5, 20), few_amounts((2,), 0, 5), few_amounts((4,), 0, 1))
def test_the_scarcest_resource_limits_a_place(free: Any, wanted: Any, among: Any):
    mask = among.astype(np.bool_)
    assert bounds.room_for(free, wanted, mask).tolist() == room_for(free, wanted, mask)


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
