"""The kernels of `fgd` and `expected-fill` against twins that go machine by machine."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernels.fragmentation import NEVER, Demand, Machines, Need, Sequences, compile_demand, filled, points
from tests.tools import naive_fragmentation as naive
from tests.tools.examples import examples

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
