"""Demands that are met together, compared with trying every choice of things."""

from collections.abc import Sequence
from itertools import permutations, product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kernels.domains import Counter, Even, Near, Rule, Vacant
from kernels.matching import Kind, Matching, Supply, fit_together
from kernels.types import Amounts, Mask
from tests.tools.examples import examples


def met(supply: Supply, demands: Sequence[tuple[int, int]]) -> bool:
    """Whether all demands, each a type and a place, can have things."""
    pairs = set(zip(supply.things.tolist(), supply.places.tolist(), strict=True))
    wanted: list[tuple[int, list[int]]] = []
    for kind in dict.fromkeys(kind for kind, _ in demands):
        places = [place for other, place in demands if other == kind]
        if supply.joint[kind]:
            if not all(supply.spared[kind, place] for place in places):
                wanted.append((kind, places))
        else:
            wanted += [(kind, [place]) for place in places if not supply.spared[kind, place]]
    return any(
        len(set(chosen)) == len(chosen)
        and all(
            supply.suits[kind, thing] and all((thing, place) in pairs for place in places)
            for thing, (kind, places) in zip(chosen, wanted, strict=True)
        )
        for chosen in product(range(supply.suits.shape[1]), repeat=len(wanted))
    )


@st.composite
def supplies(draw: st.DrawFn, places: int) -> Supply:
    """Up to three types of demands, and four things."""
    types, things = draw(st.integers(1, 3)), draw(st.integers(0, 4))
    reach = draw(arrays(np.bool_, (things, places)))
    at = np.nonzero(reach)
    return Supply(
        draw(arrays(np.bool_, (types, things), elements=st.sampled_from([True, True, False]))),
        at[0],
        at[1],
        draw(arrays(np.bool_, (types, places), elements=st.sampled_from([False, False, True]))),
        tuple(draw(st.booleans()) for _ in range(types)),
    )


PLACES = 3


@examples(150)
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


@examples(100)
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


DOMAINS = 3


def possible_by_trying(
    kinds: Sequence[Kind], counters: Sequence[Counter], free: Amounts, among: Mask, supply: Supply
) -> bool:
    """Whether some order of the things and some places work, one thing after another."""
    things = [k for k, kind in enumerate(kinds) for _ in range(kind.number)]
    places = np.flatnonzero(among).tolist()
    return any(
        _works(order, chosen, kinds, counters, free)
        and met(supply, [(kind, at) for k, at in zip(order, chosen, strict=True) for kind in kinds[k].needs])
        for order in set(permutations(things))
        for chosen in product(places, repeat=len(things))
    )


def _works(
    order: Sequence[int],
    places: Sequence[int],
    kinds: Sequence[Kind],
    counters: Sequence[Counter],
    free: Amounts,
) -> bool:
    left, counts = free.copy(), [one.counts.copy() for one in counters]
    codes = [one.codes for one in counters]
    for k, place in zip(order, places, strict=True):
        kind = kinds[k]
        if not kind.allowed[place] or (left[:, place] < kind.wanted)[kind.wanted > 0].any():
            return False
        if not all(rule.allows(codes, counts)[place] for rule in kind.rules):
            return False
        left[:, place] -= kind.wanted
        for at in kind.adds:
            if counters[at].counts_at(place):
                counts[at][codes[at][place]] += 1
    return True


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[Kind], list[Counter], Amounts, Mask, Supply]:
    places = draw(st.integers(1, 3))
    supply = draw(st.just(Supply.none(places)) | supplies(places))
    types = st.integers(0, max(len(supply.joint) - 1, 0))
    counters = []
    for _ in range(draw(st.integers(0, 2))):
        codes = draw(arrays(np.int32, places, elements=st.integers(0, DOMAINS - 1)))
        counts = draw(arrays(np.int64, DOMAINS, elements=st.sampled_from([0, 0, 1])))
        counts[0] = 0
        counters.append(Counter(codes, counts, draw(st.none() | arrays(np.bool_, places))))
    kinds = [
        Kind(
            number,
            draw(arrays(np.bool_, places, elements=st.sampled_from([True, True, False]))),
            draw(arrays(np.int64, 1, elements=st.integers(0, 2))),
            tuple(draw(st.lists(_rules(len(counters)), max_size=2))) if counters else (),
            tuple(sorted(draw(st.sets(st.integers(0, len(counters) - 1))))) if counters else (),
            tuple(draw(st.sets(types, max_size=2))) if supply.joint else (),
        )
        for number in draw(st.sampled_from([(1,), (2,), (3,), (1, 1), (2, 1), (1, 1, 1)]))
    ]
    free = draw(arrays(np.int64, (1, places), elements=st.integers(-1, 4)))
    return kinds, counters, free, draw(arrays(np.bool_, places)), supply


def _rules(counters: int) -> st.SearchStrategy[Rule]:
    at = st.integers(0, counters - 1)
    return st.one_of(
        st.builds(Vacant, at),
        st.builds(lambda one, first: Near((one,), first), at, st.booleans()),
        st.builds(
            Even,
            at,
            st.integers(1, 2),
            st.integers(0, 1),
            st.integers(0, 2),
            st.just(np.array([False] + [True] * (DOMAINS - 1))),
        ),
    )


def symmetric(kinds: Sequence[Kind]) -> bool:
    """Whether `Vacant` works both ways, as anti-affinity and ports do: who excludes others counts, too.

    The search puts things in any order if no rule can relax, so the order must not matter then.
    """
    return all(
        rule.counter not in other.adds or (rule.counter in kind.adds and rule in other.rules)
        for kind in kinds
        for rule in kind.rules
        if isinstance(rule, Vacant)
        for other in kinds
    )


@examples(300)
@given(problems())
def test_the_search_finds_a_way_if_there_is_one(
    problem: tuple[list[Kind], list[Counter], Amounts, Mask, Supply],
):
    kinds, counters, free, among, supply = problem
    relaxing = any(not rule.tightens for kind in kinds for rule in kind.rules)
    if not relaxing and not symmetric(kinds):
        return
    outcome = fit_together(kinds, counters, free, among, steps=100_000, supply=supply)
    assert outcome.complete
    assert (outcome.places is not None) == possible_by_trying(kinds, counters, free, among, supply)
    if outcome.places is not None:
        assert [len(places) for places in outcome.places] == [kind.number for kind in kinds]
        assert all(among[place] for places in outcome.places for place in places)


def test_a_search_that_is_too_long_says_that_it_gave_up():
    """Three things that take 2 of 3, and a rule that prevents the last one: many ways, all of them wrong."""
    codes = np.arange(1, 7, dtype=np.int32)
    counter = Counter(codes, np.zeros(7, dtype=np.int64))
    everywhere = np.ones(6, dtype=np.bool_)
    near = Kind(3, everywhere, np.array([2]), (Near((0,), first=False),), ())
    alone = Kind(3, everywhere, np.array([1]))
    outcome = fit_together([near, alone], [counter], np.full((1, 6), 3), everywhere, steps=20)
    assert (outcome.places, outcome.complete) == (None, False)


def test_counting_alone_excludes_what_cannot_be():
    codes = np.array([1, 2, 2], dtype=np.int32)
    counter = Counter(codes, np.zeros(3, dtype=np.int64))
    apart = Kind(3, np.ones(3, dtype=np.bool_), np.array([0]), (Vacant(0),), (0,))
    outcome = fit_together([apart], [counter], np.zeros((1, 3), dtype=np.int64), apart.allowed, steps=100)
    assert (outcome.places, outcome.complete, outcome.steps) == (None, True, 0)
