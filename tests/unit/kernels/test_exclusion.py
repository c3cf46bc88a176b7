"""Which devices may be held together, compared with plain sets."""

from typing import Any, NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernels.exclusion import (
    ALL,
    compatible,
    compatible_with,
    count_marks,
    enough,
    group_held,
    largest_group,
    may_serve_together,
    pack_bits,
    rank_by_remaining,
    remaining_sets,
    share_fits,
    shared_by_all,
    shares_a_name,
    total_weight,
    unpack_bits,
    unused,
)
from kernels.types import Bits, Mask
from tests.tools import reference_kernels
from tests.tools import reference_shares as reference
from tests.tools.arrays import amounts, codes, untouched

SCOPES, WIDTH = 3, 2
MARKS = 70
"""More than one word holds"""
NAMES = st.frozensets(st.sampled_from([0, 1, 63, 64, 69]), max_size=4)


class Devices(NamedTuple):
    """Each is in up to two different scopes, and asks for and meets some marks in each."""

    scopes: list[list[int]]
    asks: list[list[frozenset[int]]]
    meets: list[list[frozenset[int]]]
    held: list[bool]


def bits(names: list[list[frozenset[int]]]) -> Bits:
    """(n, K, W)"""
    single = np.zeros((len(names), WIDTH, MARKS), dtype=np.bool_)
    for row, sets in enumerate(names):
        for k, declared in enumerate(sets):
            single[row, k, list(declared)] = True
    return pack_bits(single)


@st.composite
def devices(draw: st.DrawFn) -> Devices:
    count = draw(st.integers(0, 5))
    places = st.lists(st.integers(0, SCOPES - 1), max_size=WIDTH, unique=True)
    scopes = [(draw(places) + [-1] * WIDTH)[:WIDTH] for _ in range(count)]
    asks = [[draw(NAMES) for _ in range(WIDTH)] for _ in range(count)]
    meets = [[draw(NAMES) for _ in range(WIDTH)] for _ in range(count)]
    return Devices(scopes, asks, meets, [draw(st.booleans()) for _ in range(count)])


@given(devices())
def test_what_is_common_is_the_plain_intersection(some: Devices):
    scopes = codes(some.scopes, WIDTH)
    found = untouched(shared_by_all, SCOPES, scopes, bits(some.asks))
    plain = reference_kernels.shared_by_all(SCOPES, some.scopes, some.asks)
    for words, names in zip(found, plain, strict=True):
        if names is None:
            assert (words == ALL).all()
        else:
            assert set(np.flatnonzero(unpack_bits(words, MARKS)).tolist()) == names
    told = untouched(shares_a_name, found, scopes, bits(some.meets)).tolist()
    assert told == reference_kernels.shares_a_name(plain, some.scopes, some.meets)


@given(devices())
def test_counting_is_the_plain_count(some: Devices):
    found = untouched(count_marks, SCOPES, MARKS, codes(some.scopes, WIDTH), bits(some.asks))
    assert found.tolist() == reference_kernels.count_marks(SCOPES, MARKS, some.scopes, some.asks)


@given(devices())
def test_compatible_with_one_device_is_the_plain_definition(some: Devices):
    arrays = codes(some.scopes, WIDTH), bits(some.asks), bits(some.meets)
    for one in range(len(some.scopes)):
        found = untouched(compatible_with, one, *arrays).tolist()
        assert found == reference_kernels.compatible_with(one, *some[:3])


@given(devices())
def test_counts_give_the_same_result_as_all_pairs(some: Devices):
    scopes, asks, meets = codes(some.scopes, WIDTH), bits(some.asks), bits(some.meets)
    held = np.array(some.held, dtype=np.bool_)
    asked = count_marks(SCOPES, MARKS, scopes[held], asks[held])
    missed = count_marks(SCOPES, MARKS, scopes[held], ~meets[held])
    found = untouched(compatible, asked, missed, scopes, asks, meets, held)
    assert found.tolist() == reference_kernels.compatible(*some)


@given(st.lists(st.booleans(), max_size=130))
def test_packing_loses_nothing(single: list[bool]):
    mask = np.array(single, dtype=np.bool_)
    words = pack_bits(mask)
    assert words.shape == (-(-len(single) // 64),)
    assert unpack_bits(words, len(single)).tolist() == single


# -- Shares: arrays against loops.


AMOUNT = st.integers(0, 4) | st.just(2**60)


@st.composite
def tables(draw: st.DrawFn, count: int = 2) -> tuple[int, list[list[list[int]]]]:
    width, rows = draw(st.integers(0, 3)), draw(st.integers(0, 5))
    row = st.lists(AMOUNT, min_size=width, max_size=width)
    return width, [draw(st.lists(row, min_size=rows, max_size=rows)) for _ in range(count)]


@given(tables())
def test_unused_matches_the_reference(case: tuple[int, list[list[list[int]]]]):
    width, (total, used) = case
    found = untouched(unused, amounts(total, width), amounts(used, width))
    assert found.tolist() == reference.unused(total, used)


@given(tables(), st.data())
def test_share_fits_matches_the_reference(case: tuple[int, list[list[list[int]]]], data: st.DataObject):
    width, (free, known) = case
    wanted = data.draw(st.lists(AMOUNT, min_size=width, max_size=width))
    reported = [[bool(n) for n in row] for row in known]
    some = data.draw(st.lists(st.booleans(), min_size=len(free), max_size=len(free)))
    flags = np.array(reported, dtype=np.bool_).reshape(len(free), width)
    asked = np.array(wanted, dtype=np.int64)
    found = untouched(share_fits, amounts(free, width), flags, np.array(some, dtype=np.bool_), asked)
    assert found.tolist() == reference.share_fits(free, reported, some, wanted)


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 3))), st.lists(st.integers(0, 3), min_size=4, max_size=4)
)
def test_enough_matches_the_reference(things: list[tuple[bool, int]], needed: list[int]):
    ok, owners = [fine for fine, _ in things], [owner for _, owner in things]
    flags, rows = np.array(ok, dtype=np.bool_), np.array(owners, dtype=np.intp)
    found = untouched(enough, flags, rows, np.array(needed, dtype=np.int64))
    assert found.tolist() == reference.enough(ok, owners, needed)


@given(st.lists(st.tuples(st.booleans(), st.integers(-1, 3))))
def test_group_held_matches_the_reference(things: list[tuple[bool, int]]):
    held, groups = [is_held for is_held, _ in things], [group for _, group in things]
    found = untouched(group_held, np.array(held, dtype=np.bool_), np.array(groups, dtype=np.intp), 4)
    assert found.tolist() == reference.group_held(held, groups)


@st.composite
def grouped(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Groups, named by their first thing, and owners of whole groups."""
    names = draw(st.lists(st.integers(-1, 4), max_size=9))
    groups = [names.index(name) if name >= 0 else -1 for name in names]
    of_group = draw(st.lists(st.integers(0, 2), min_size=len(names), max_size=len(names)))
    return groups, [of_group[group] if group >= 0 else of_group[at] for at, group in enumerate(groups)]


def flags(draw: Any, count: int) -> list[bool]:
    found: list[bool] = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    return found


@given(grouped(), st.data())
def test_largest_group_matches_the_reference(case: tuple[list[int], list[int]], data: st.DataObject):
    groups, owners = case
    ok = flags(data.draw, len(groups))
    rows = np.array(groups, dtype=np.intp), np.array(owners, dtype=np.intp)
    found = untouched(largest_group, np.array(ok, dtype=np.bool_), *rows, 3)
    assert found.tolist() == reference.largest_group(ok, groups, owners, 3)


@given(grouped(), st.data())
def test_may_serve_together_matches_the_reference(case: tuple[list[int], list[int]], data: st.DataObject):
    groups, owners = case
    counts = st.lists(st.integers(0, 3), min_size=3, max_size=3)
    lead = flags(data.draw, len(groups))
    beside = [flags(data.draw, len(groups)) for _ in range(data.draw(st.integers(0, 2)))]
    needed, wanted = data.draw(counts), [data.draw(counts) for _ in beside]
    found = untouched(
        may_serve_together,
        np.array(lead, dtype=np.bool_),
        [np.array(ok, dtype=np.bool_) for ok in beside],
        np.array(groups, dtype=np.intp),
        np.array(owners, dtype=np.intp),
        np.array(needed, dtype=np.int64),
        [np.array(of_kind, dtype=np.int64) for of_kind in wanted],
    )
    assert found.tolist() == reference.may_serve_together(lead, beside, groups, owners, needed, wanted)


MEMBERS = 6


class Drawn(NamedTuple):
    """Sets, which of them can be picked, and picks."""

    sets: list[set[int]]
    alive: list[bool]
    picks: list[int]
    values: list[int]


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    sets = draw(st.lists(st.sets(st.integers(0, MEMBERS - 1), min_size=1), min_size=1, max_size=7))
    n = len(sets)
    alive = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    picks = draw(st.lists(st.integers(0, n - 1), max_size=5))
    values = draw(st.lists(st.integers(0, 3) | st.just(2**59), min_size=n, max_size=n))
    return Drawn(sets, alive, picks, values)


def left(case: Drawn) -> Mask:
    members = np.array([[m in one for m in range(MEMBERS)] for one in case.sets], dtype=np.bool_)
    alive, picks = np.array(case.alive, dtype=np.bool_), np.array(case.picks, dtype=np.intp)
    found: Mask = untouched(remaining_sets, members, alive, picks)
    return found


@given(drawn())
def test_remaining_sets_match_the_reference(case: Drawn):
    assert left(case).tolist() == reference.remaining_sets(case.sets, case.alive, case.picks)


@given(drawn())
def test_total_weight_matches_the_reference(case: Drawn):
    remaining = left(case)
    small = [value % 1000 for value in case.values]
    found = untouched(total_weight, remaining, np.array(small, dtype=np.int64))
    assert found.tolist() == reference.total_weight(remaining.tolist(), small)


@given(drawn())
def test_the_ranks_match_the_reference(case: Drawn):
    remaining = left(case)
    sizes = [len(one) for one in case.sets]
    worth = np.array(case.values, dtype=np.int64)
    found = untouched(rank_by_remaining, remaining, np.array(sizes, dtype=np.int64), worth)
    assert found.tolist() == reference.rank_by_remaining(remaining.tolist(), sizes, case.values)
