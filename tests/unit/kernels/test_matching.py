"""Demands that are met together, compared with trying every choice of things."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.matching import Matching, Supply
from tests.tools.naive_matching import met, supplies

PLACES = 3


@settings(max_examples=150)
@given(
    supplies(PLACES),
    st.lists(st.tuples(st.lists(st.integers(0, 2), max_size=2, unique=True), st.integers(0, PLACES - 1))),
)
def test_demands_are_added_as_long_as_all_can_be_met(supply: Supply, asked: list[tuple[list[int], int]]):
    matching, there = Matching(supply), list[tuple[int, int]]()
    for wanted, place in asked[:4]:
        types = [kind for kind in wanted if kind < len(supply.joint)]
        possible = matching.possible(types)
        for at in range(PLACES):
            new = [(kind, at) for kind in types]
            expected = met(supply, there + new)
            assert matching.add(types, at) == expected
            if expected:
                matching.undo()
            assert possible[at] or not expected
            if len(types) == 1:
                assert possible[at] == expected
        if matching.add(types, place):
            there += [(kind, place) for kind in types]


@settings(max_examples=100)
@given(supplies(PLACES), st.lists(st.integers(0, 2), min_size=1, max_size=3), st.data())
def test_what_does_not_suffice_for_places_together_suffices_for_no_choice_of_them(
    supply: Supply, kinds: list[int], data: st.DataObject
):
    types = [kind for kind in kinds if kind < len(supply.joint)]
    masks = [np.array(data.draw(st.tuples(*[st.booleans()] * PLACES))) for _ in types]
    wanted = [((kind,), 1, mask) for kind, mask in zip(types, masks, strict=True)]
    if not Matching(supply).suffices(wanted):
        for places in np.ndindex(*[PLACES] * len(types)):
            if all(mask[place] for mask, place in zip(masks, places, strict=True)):
                assert not met(supply, list(zip(types, places, strict=True)))


def test_a_demand_gives_way_to_another_that_can_have_nothing_else():
    """Two things; the first demand takes the first thing, which alone suits the second demand."""
    both = np.array([0, 1], dtype=np.intp)
    nowhere = np.zeros((2, 1), dtype=np.bool_)
    supply = Supply(
        np.array([[True, True], [True, False]]), both, np.zeros(2, dtype=np.intp), nowhere, (False, False)
    )
    matching = Matching(supply)
    assert matching.add([0], 0)
    assert matching.add([1], 0)
    assert not matching.possible([0]).any()
    assert supply.each(1).tolist() == [1]
