"""How slots are found and devices are packed into rows, against what must hold for any fleet."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reconciler.operations.page.charts import MOST_SLOTS, Run, lanes, runs, slots_of


def draws(*rows: list[int]) -> np.ndarray:
    return np.array(rows, dtype=np.int64)


def test_counters_that_differ_by_a_number_and_are_one_each_are_slots_in_the_order_of_their_numbers():
    counters = ["memory", "memory-slice-10", "memory-slice-2", "memory-slice-9"]
    (found,) = slots_of(counters, [40, 1, 1, 1], draws([5, 1, 0, 0], [40, 1, 1, 1]))
    assert found.name == "memory-slice"
    assert found.columns == (2, 3, 1)
    assert found.labels == ("2", "9", "10")


def test_what_is_drawn_in_parts_is_no_slot():
    """Chips of a node are in one unit here: 4 of 4, or 2 of 4."""
    assert slots_of(["tpu-0", "tpu-1"], [2, 2], draws([1, 0], [2, 2])) == []
    assert slots_of(["a-0", "a-1"], [1, 1], draws([3, 0], [1, 1])) == []  # over-committed by itself


def test_one_counter_alone_or_too_many_are_no_row_of_slots():
    assert slots_of(["slice-0", "memory"], [1, 1], np.zeros((0, 2), dtype=np.int64)) == []
    many = [f"s{number}" for number in range(MOST_SLOTS + 1)]
    assert slots_of(many, [1] * len(many), np.zeros((0, len(many)), dtype=np.int64)) == []


@given(st.lists(st.booleans(), max_size=12))
def test_runs_say_which_slots_are_drawn_and_never_touch(drawn: list[bool]):
    found = runs(drawn)
    assert [any(run.start <= at < run.stop for run in found) for at in range(len(drawn))] == drawn
    assert all(one.stop < other.start for one, other in pairwise(found))


SPANS = st.lists(st.booleans(), min_size=6, max_size=6).map(runs)


@given(st.lists(st.tuples(st.sampled_from("abc"), SPANS), max_size=20))
def test_rows_hold_every_device_once_of_one_profile_and_without_overlap(
    devices: list[tuple[str, tuple[Run, ...]]],
):
    profiles, spans = [one for one, _ in devices], [runs for _, runs in devices]
    rows = lanes(profiles, spans)
    assert sorted(at for row in rows for at in row) == [at for at in range(len(devices)) if spans[at]]
    for row in rows:
        assert len({profiles[at] for at in row}) == 1
        slots = [slot for at in row for run in spans[at] for slot in range(run.start, run.stop)]
        assert len(slots) == len(set(slots))


def test_a_mig_gpu_needs_one_row_a_profile():
    """As KEP-4815 draws it: the widest first, all places of a profile in one row."""
    places = {"7g": (8, [0]), "3g": (4, [0, 4]), "2g": (2, [0, 2, 4]), "1g": (1, range(7))}
    profiles, spans = [], []
    for name, (width, starts) in places.items():
        for start in starts:
            profiles.append(name)
            spans.append((Run(start, start + width),))
    assert [profiles[row[0]] for row in lanes(profiles, spans)] == ["7g", "3g", "2g", "1g"]
