"""Rules on things in domains, compared with loops over places."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kernels.domains import (
    NONE,
    Crowd,
    Even,
    Near,
    Spans,
    Vacant,
    Within,
    below_greatest,
    between,
    first_at_each,
    leading,
    of_greatest,
    per_domain,
    present,
    uncrowded,
)
from kernels.types import Amounts, Codes, Mask

MOST_DOMAINS = 4


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Codes, Amounts, Mask]:
    """Domains of places, things at each, and which places count."""
    places = draw(st.integers(0, 7))
    codes = draw(arrays(np.int32, places, elements=st.integers(0, MOST_DOMAINS)))
    each = draw(arrays(np.int64, places, elements=st.integers(0, 3)))
    return codes, each, draw(arrays(np.bool_, places))


def counts_by_loops(codes: Codes, each: Amounts, counted: Mask) -> dict[int, int]:
    """Domain -> things, for domains with a counted place."""
    found: dict[int, int] = {}
    for code, things, counts in zip(codes.tolist(), each.tolist(), counted.tolist(), strict=True):
        if code and counts:
            found[code] = found.get(code, 0) + things
    return found


@given(worlds())
def test_counts_are_sums_over_the_counted_places_of_a_domain(world: tuple[Codes, Amounts, Mask]):
    codes, each, counted = world
    expected = counts_by_loops(codes, each, counted)
    found = per_domain(each, codes, counted, MOST_DOMAINS + 1)
    assert found.tolist() == [expected.get(code, 0) for code in range(MOST_DOMAINS + 1)]
    assert set(np.flatnonzero(present(codes, counted, MOST_DOMAINS + 1)).tolist()) == set(expected)


@given(worlds(), st.booleans())
def test_vacant_and_near_domains(world: tuple[Codes, Amounts, Mask], first: bool):
    codes, each, _ = world
    everywhere = np.ones(len(codes), dtype=np.bool_)
    expected = counts_by_loops(codes, each, everywhere)
    counts = [per_domain(each, codes, None, MOST_DOMAINS + 1)]
    vacant = Vacant(0).allows([codes], counts)
    assert vacant.tolist() == [not code or not expected[code] for code in codes.tolist()]
    nobody = first and not any(expected.values())
    near = Near((0,), first).allows([codes], counts)
    assert near.tolist() == [bool(code) and (nobody or expected[code] > 0) for code in codes.tolist()]


@given(worlds(), st.integers(1, 3), st.integers(0, 1), st.integers(0, 4))
def test_even_domains(world: tuple[Codes, Amounts, Mask], skew: int, own: int, least: int):
    codes, each, counted = world
    have = counts_by_loops(codes, each, counted)
    emptiest = min(have.values()) if have and len(have) >= least else 0
    size = MOST_DOMAINS + 1
    rule = Even(0, skew, own, least, present(codes, counted, size))
    found = rule.allows([codes], [per_domain(each, codes, counted, size)])
    expected = [bool(code) and have.get(code, 0) + own - emptiest <= skew for code in codes.tolist()]
    assert found.tolist() == expected


@given(worlds(), st.lists(st.integers(0, 2), min_size=MOST_DOMAINS, max_size=MOST_DOMAINS), st.data())
def test_even_domains_however_many_of_the_things_to_come_are_there(
    world: tuple[Codes, Amounts, Mask], coming: list[int], data: st.DataObject
):
    codes, each, counted = world
    size = MOST_DOMAINS + 1
    rule = Even(
        0, data.draw(st.integers(1, 3)), data.draw(st.integers(0, 1)), 2, present(codes, counted, size)
    )
    fewest = per_domain(each, codes, counted, size)
    more = np.array([0, *coming])
    found = rule.allows_between([codes], [fewest + more], [fewest])
    orders = (np.array(some) for some in product(*(range(one + 1) for one in more)))
    each_order = [rule.allows([codes], [fewest + some]) for some in orders]
    assert found.tolist() == np.all(each_order, axis=0).tolist()


@given(st.data(), st.integers(1, 4), st.integers(0, 2), st.integers(0, 3))
def test_parts_within_a_limit(data: st.DataObject, places: int, parts: int, own: int):
    """Places have parts of single things, and common parts; some of these were there from the start."""
    single = data.draw(arrays(np.int64, places, elements=st.integers(0, 2)))
    there = data.draw(arrays(np.int64, (parts, places), elements=st.integers(0, 2)))
    fresh = data.draw(arrays(np.bool_, (parts, places)))
    mine = tuple(data.draw(st.booleans()) for _ in range(parts))
    left = data.draw(arrays(np.int64, places, elements=st.integers(-1, 4)))
    codes = np.arange(1, places + 1, dtype=np.int32)
    none = np.zeros((parts, 1), dtype=np.bool_)
    rule = Within(
        0, own, tuple(range(1, parts + 1)), mine, np.hstack([none, fresh]), np.concatenate([[0], left])
    )
    counts = [np.concatenate([[0], one]) for one in (single, *there)]
    expected = []
    for at in range(places):
        present_now = {p for p in range(parts) if there[p, at] and fresh[p, at]}
        brought = {p for p in range(parts) if mine[p] and fresh[p, at]}
        new = own + len(brought - present_now)
        expected.append(new == 0 or single[at] + own + len(present_now | brought) <= left[at])
    assert rule.allows([codes] * (1 + parts), counts).tolist() == expected


ALL = np.ones(3, dtype=np.bool_)


def test_points_are_shares_of_the_greatest():
    raw = np.array([0, 1, 3])
    assert of_greatest(raw, ALL).tolist() == [0, 33, 100]
    assert below_greatest(raw, ALL).tolist() == [100, 67, 0]
    assert of_greatest(raw, np.array([True, True, False])).tolist()[:2] == [0, 100]
    assert below_greatest(np.zeros(3, dtype=np.int64), ALL).tolist() == [100, 100, 100]


def test_points_between_the_least_and_the_greatest():
    assert between(np.array([-100, -71, 0]), ALL).tolist() == [0, 28, 100]  # 100 x 0.29 is less than 29
    assert between(np.array([5, 5, 5]), ALL).tolist() == [0, 0, 0]
    assert between(np.array([5, 5, 9]), np.zeros(3, dtype=np.bool_)).tolist() == [0, 0, 0]


def test_crowds_count_more_over_many_domains():
    """2 x ln 5 is 3.2, 2 x ln 4 is 2.8: both are rounded to 3, and then compared."""
    each = Crowd(np.array([2, 0, 0]), np.array([1, 2, 3], dtype=np.int32), 0)
    pairs = Crowd(np.array([0, 0, 2]), np.array([1, 1, 2], dtype=np.int32), 0)
    assert uncrowded([each], ALL, ALL).tolist() == [0, 100, 100]
    assert uncrowded([each, pairs], ALL, ALL).tolist() == [0, 100, 0]
    wide = each._replace(allowance=3)
    assert uncrowded([wide], ALL, ALL).tolist() == [50, 100, 100]
    some = np.array([True, True, False])
    assert uncrowded([each], some, ALL).tolist() == [0, 100, 0]
    assert uncrowded([each], np.zeros(3, dtype=np.bool_), ALL).tolist() == [0, 0, 0]
    empty = each._replace(counts=np.zeros(3, dtype=np.int64))
    assert uncrowded([empty], some, ALL).tolist() == [100, 100, 0]


@given(
    st.integers(1, 6).flatmap(
        lambda size: st.tuples(
            st.just(size),
            st.lists(st.tuples(st.integers(0, 8), st.integers(0, size - 1)), unique=True),
            st.lists(st.lists(st.integers(NONE, 8), min_size=size, max_size=size), max_size=3),
        )
    )
)
def test_the_first_thing_at_each_place(drawn: tuple[int, list[tuple[int, int]], list[list[int]]]):
    size, there, taken = drawn
    there.sort()
    expected = []
    for place in range(size):
        left = [thing for thing, at in there if at == place and thing not in [gone[place] for gone in taken]]
        expected.append(min(left, default=NONE))
    found = first_at_each(
        np.array([thing for thing, _ in there], dtype=np.int32),
        np.array([place for _, place in there], dtype=np.intp),
        size,
        [np.array(gone, dtype=np.int32) for gone in taken],
    )
    assert found.tolist() == expected


@given(st.lists(st.integers(0, 4)), st.integers(1, 3))
def test_the_first_of_each_group(groups: list[int], most: int):
    expected = [at for at, group in enumerate(groups) if groups[:at].count(group) < most]
    assert leading(np.array(groups, dtype=np.int32), most).tolist() == expected


@given(st.lists(st.lists(st.integers(0, 9)), min_size=1), st.data())
def test_lists_are_read_in_turn(lists: list[list[int]], data: st.DataObject):
    numbers = data.draw(st.lists(st.integers(0, len(lists) - 1)))
    expected = [(at, place) for at, number in enumerate(numbers) for place in lists[number]]
    spans = Spans.joined([np.array(one, dtype=np.intp) for one in lists])
    which, places = spans.of(np.array(numbers, dtype=np.intp))
    assert list(zip(which.tolist(), places.tolist(), strict=True)) == expected
