"""Counts of what fits into domains, compared with loops."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernels import bounds
from tests.tools import gang_kernels as slow
from tests.tools.examples import examples


def amounts(shape: tuple[int, ...], least: int = 0, most: int = 12) -> st.SearchStrategy[Any]:
    size = int(np.prod(shape))
    numbers = st.lists(st.integers(least, most), min_size=size, max_size=size)
    return numbers.map(lambda found: np.array(found, dtype=np.int64).reshape(shape))


def codes(size: int, least: int) -> st.SearchStrategy[Any]:
    return amounts((size,), least, 3).map(lambda found: found.astype(np.int32))


@st.composite
def placed(draw: Any) -> tuple[Any, Any, Any]:
    size = draw(st.integers(0, 8))
    return draw(amounts((size,), 0, 4)), draw(codes(size, -1)), draw(codes(size, 0))


@examples(60)
@given(placed())
def test_domains_hold_what_their_places_hold(world: Any):
    each, of_place, groups = world
    assert bounds.per_domain(each, of_place, 4).tolist() == slow.per_domain(each, of_place, 4)
    before = each.copy()
    assert bounds.apart(each, of_place, groups).tolist() == slow.apart(each, of_place, groups)
    assert each.tolist() == before.tolist()


@examples(60)
@given(amounts((4,), 0, 30), st.integers(0, 6).flatmap(lambda size: amounts((size,))))
def test_the_modest_come_first(supply: Any, needs: Any):
    assert bounds.most_with(supply, needs).tolist() == slow.most_with(supply, needs)


@examples(60)
@given(amounts((3, 2), -5, 20), amounts((3, 2), 0, 5), amounts((3,)))
def test_counters_limit_the_devices_of_a_set(left: Any, least: Any, devices: Any):
    found = bounds.devices_of_sets(left, least, devices)
    assert found.tolist() == slow.devices_of_sets(left, least, devices)


@examples(60)
@given(amounts((2, 4), -5, 20), amounts((2,), 0, 5), amounts((4,), 0, 1))
def test_the_scarcest_resource_limits_a_place(free: Any, wanted: Any, among: Any):
    mask = among.astype(np.bool_)
    assert bounds.room_for(free, wanted, mask).tolist() == slow.room_for(free, wanted, mask)
