"""Sets of vectors as bits of integers, compared with sets of tuples."""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernels.boxes import Box, handed_out, moved, packings
from kernels.fragmentation import NEVER, Demand, Machines, Need, Sequences, compile_demand, filled, points
from tests.tools import naive_fragmentation as naive
from tests.tools.examples import examples

Counts = tuple[int, ...]


def fitting(
    left: Sequence[int], draws: Sequence[Sequence[int]], kinds: Sequence[Sequence[bool]], width: int
) -> set[Counts]:
    """The counts of each of `width` kinds of all sets of devices that fit together."""
    return {
        tuple(chosen.count(kind) for kind in range(width))
        for chosen in product(*[[None, *(k for k in range(width) if serves[k])] for serves in kinds])
        if all(
            total == 0 or total <= have
            for total, have in zip(_drawn(chosen, draws, len(left)), left, strict=True)
        )
    }


def _drawn(chosen: Sequence[int | None], draws: Sequence[Sequence[int]], width: int) -> Iterator[int]:
    for column in range(width):
        yield sum(draw[column] for draw, kind in zip(draws, chosen, strict=True) if kind is not None)


def cells(caps: Sequence[int]) -> Iterator[Counts]:
    """All vectors with counts from 0 to the caps."""
    return product(*[range(cap + 1) for cap in caps])


def below(one: Counts, other: Counts) -> bool:
    """Whether a vector is nowhere above another."""
    return all(a <= b for a, b in zip(one, other, strict=True))


def largest(counts: set[Counts]) -> set[Counts]:
    """The vectors that are below no other."""
    return {one for one in counts if not any(other != one and below(one, other) for other in counts)}


MANY = 100_000


def as_cells(box: Box, bits: int) -> set[Counts]:
    return set(map(tuple, box.vectors(bits).tolist()))


def down(counts: set[Counts], caps: Counts) -> set[Counts]:
    return {one for one in cells(caps) if any(below(one, other) for other in counts)}


def bits_of(box: Box, counts: set[Counts]) -> int:
    return sum(
        1 << sum(count * stride for count, stride in zip(one, box.strides, strict=True)) for one in counts
    )


@st.composite
def closed_sets(draw: st.DrawFn) -> tuple[Counts, set[Counts], list[Counts]]:
    """Caps, a set closed downwards, and vectors to add."""
    caps = tuple(draw(st.lists(st.integers(0, 4), min_size=1, max_size=4)))
    one = st.tuples(*[st.integers(0, cap) for cap in caps])
    corners = draw(st.lists(one, min_size=1, max_size=4))
    return caps, down(set(corners), caps), draw(st.lists(one, max_size=4))


@given(closed_sets())
def test_adding_vectors_gives_all_sums_in_the_box_and_all_below(
    world: tuple[Counts, set[Counts], list[Counts]],
):
    caps, before, vectors = world
    box = Box(caps)
    rises = [max([vector[kind] for vector in vectors], default=0) for kind in range(len(caps))]
    found = box.closed(moved(bits_of(box, before), map(box.step, vectors)), rises)
    sums = {tuple(map(sum, zip(one, vector, strict=True))) for one in before for vector in vectors}
    assert as_cells(box, found) == {one for one in cells(caps) if any(below(one, other) for other in sums)}


@given(closed_sets())
def test_largest_renewed_and_below(world: tuple[Counts, set[Counts], list[Counts]]):
    caps, before, vectors = world
    box, kind = Box(caps), len(caps) - 1
    bits = bits_of(box, before)
    assert as_cells(box, box.largest(bits)) == largest(before)
    assert as_cells(box, box.renewed(bits, kind)) == {one for one in cells(caps) if (*one[:-1], 0) in before}
    for corner in vectors:
        assert as_cells(box, box.below(corner)) == down({corner}, caps)
    assert box.of(box.vectors(bits)) == bits


def test_a_step_can_use_up_what_is_allowed_and_can_ask_for_none_left():
    box = Box([2, 1])
    everything_allowed = bits_of(box, {(0, 0), (0, 1)})
    used = moved(everything_allowed, [box.step([1, -1])])
    assert as_cells(box, used) == {(1, 0)}
    assert moved(used, [box.step([1, -1])]) == 0
    assert as_cells(box, moved(everything_allowed, [box.step([1, 0], only_zero=[1])])) == {(1, 0)}


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[int], list[list[int]], list[int], list[list[int]], list[int]]:
    """What is left of a group, draws, class of each device, kinds that each class serves, caps."""
    counters, count = draw(st.integers(0, 3)), draw(st.integers(0, 6))
    left = draw(st.lists(st.integers(-1, 5), min_size=counters, max_size=counters))
    row = st.lists(st.integers(0, 3), min_size=counters, max_size=counters)
    draws = draw(st.lists(row, min_size=count, max_size=count))
    classes = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    serves = draw(st.lists(st.lists(st.integers(0, 2), unique=True), min_size=3, max_size=3))
    return left, draws, classes, serves, draw(st.lists(st.integers(0, 3), min_size=3, max_size=3))


@given(groups())
def test_packings_are_the_largest_of_all_choices(
    world: tuple[list[int], list[list[int]], list[int], list[list[int]], list[int]],
):
    left, draws, classes, _, _ = world
    found = packings(left, draws, classes, limit=MANY)
    assert found is not None
    width = max(classes, default=-1) + 1
    kinds = [[of == kind for kind in range(width)] for of in classes]
    assert set(found) == largest(fitting(left, draws, kinds, width))
    assert len(set(found)) == len(found)


@given(groups())
def test_devices_are_handed_out_in_every_way(
    world: tuple[list[int], list[list[int]], list[int], list[list[int]], list[int]],
):
    left, draws, classes, serves, caps = world
    packed = packings(left, draws, classes, limit=MANY)
    assert packed is not None
    box, width = Box(caps), max(classes, default=-1) + 1
    unit = [[int(kind == of) for kind in range(3)] for of in range(3)]
    steps = [[box.step(unit[kind]) for kind in serves[of] if caps[kind]] for of in range(width)]
    found = as_cells(box, handed_out(packed, steps, box.below([0] * 3)))
    kinds = [[kind in serves[of] for kind in range(3)] for of in classes]
    fit = fitting(left, draws, kinds, 3)
    assert found == {one for one in cells(caps) if any(below(one, other) for other in fit)}


def test_a_group_with_too_many_states_is_given_up():
    eye = [[int(a == b) for a in range(12)] for b in range(12)]
    assert packings([1] * 12, eye, list(range(12)), limit=100) is None


# -- The kernels of `fgd` and `expected-fill` against twins that go machine by machine.


MODELS = 3
SHARED = st.tuples(st.sampled_from((100, 250, 500, 700, 999)), st.just(1))
WHOLE = st.tuples(st.just(1000), st.integers(1, 4))
NONE = st.just((0, 0))
CORES = st.sampled_from((0, 1000, 4000, 9000))


def _kinds(*needs: st.SearchStrategy[tuple[int, int]]) -> st.SearchStrategy[naive.Kind]:
    models = st.frozensets(st.integers(0, MODELS - 1), min_size=1)
    return st.builds(
        lambda cores, need, models, weight: naive.Kind(cores, need[0], need[1], models, weight),
        CORES, st.one_of(*needs), models, st.integers(1, 9),
    )  # fmt: skip


MACHINES = st.lists(
    st.tuples(
        st.integers(0, 10_000),
        st.integers(0, MODELS - 1),
        st.lists(st.sampled_from((0, 1, 100, 300, 500, 999, 1000)), min_size=4, max_size=4),
    ),
    min_size=1,
    max_size=6,
)


def _demand(kinds: list[naive.Kind]) -> Demand:
    models = [[model in kind.models for model in range(MODELS)] for kind in kinds]
    columns = [[kind.cores, kind.units, kind.count, kind.weight] for kind in kinds]
    cores, units, count, weight = np.array(columns, dtype=np.int64).T
    return Demand(cores, units, count, np.array(models), weight)


def _machines(made: list[tuple[int, int, list[int]]]) -> Machines:
    cores, model, free = zip(*made, strict=True)
    return Machines(np.array(cores), np.array(model, dtype=np.int32), np.array(free))


@examples(80)
@given(st.lists(_kinds(SHARED, WHOLE, NONE), min_size=1, max_size=8), _kinds(SHARED, WHOLE, NONE), MACHINES)
def test_points_are_those_of_counting_fragments_machine_by_machine(
    kinds: list[naive.Kind], need: naive.Kind, made: list[tuple[int, int, list[int]]]
):
    anywhere = naive.Kind(need.cores, need.units, need.count, frozenset(range(MODELS)))
    score, device = points(
        compile_demand(_demand(kinds)), Need(need.cores, need.units, need.count), _machines(made)
    )
    for at, machine in enumerate(made):
        expected = naive.points(kinds, anywhere, *machine)
        if expected is None:
            assert score[at] == NEVER
        else:
            assert (int(score[at]), int(device[at])) == expected


@examples(60)
@given(st.lists(st.lists(_kinds(SHARED, WHOLE), min_size=20, max_size=20), min_size=1, max_size=3), MACHINES)
def test_sequences_fill_what_they_fill_need_by_need(
    drawn: list[list[naive.Kind]], made: list[tuple[int, int, list[int]]]
):
    """More needs than one round places, so that the rounds join."""
    kinds = [kind for sequence in drawn for kind in sequence]
    numbers = np.arange(len(kinds), dtype=np.int32).reshape(len(drawn), 20)
    found = filled(Sequences(_demand(kinds), numbers), _machines(made))
    assert found.tolist() == [naive.filled(drawn, *machine) for machine in made]
