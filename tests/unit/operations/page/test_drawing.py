"""How a chart is laid out and coloured, and how names are shown."""

import re
from itertools import pairwise
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.meta import ObjectKey
from reconciler.operations.page import drawing
from reconciler.operations.page.charts import MOST_SLOTS, Run, lanes, runs, slots_of
from reconciler.operations.page.query import FILTERS, LONGEST_NAME, PAGES, Query, anchor, shown
from reconciler.operations.page.routes import _style


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


TEXT, SHAPE = 4.5, 3.0
"""Contrast that WCAG 2.2 AA wants of text and of what has to be seen to understand"""


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = digits if len(digits) == 6 else "".join(2 * digit for digit in digits)
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    red, green, blue = linear
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


def themes() -> dict[str, dict[str, str]]:
    """The custom properties of both themes, the dark one with what it keeps of the light one."""
    found: list[dict[str, str]] = [{}, {}]
    for block in re.findall(r":root\{(.*?)\}", str(_style()), re.DOTALL):
        pairs = dict(re.findall(r"--([\w-]+):(#[0-9a-f]{3,6})", block))
        # The blocks come in turns: light, dark, light, dark.
        found[0 if len(pairs.keys() & found[0].keys()) == 0 else 1] |= pairs
    return {"light": found[0], "dark": found[0] | found[1]}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_and_shapes_stand_out(theme: str):
    of = themes()[theme]
    fills = [of[f"c{at}"] for at in range(len(drawing.LIGHT))]
    assert fills == list(drawing.LIGHT if theme == "light" else drawing.DARK)
    for fill in fills:
        assert contrast(fill, of["on"]) >= TEXT, fill
        assert contrast(fill, of["card"]) >= SHAPE, fill
        assert contrast(fill, of["track"]) >= SHAPE, fill
    for ink in ("ink", "soft", "link"):
        assert contrast(of[ink], of["card"]) >= TEXT, ink
        assert contrast(of[ink], of["ground"]) >= TEXT, ink
    assert contrast(of["grave"], of["graveground"]) >= TEXT
    assert contrast(of["on"], of["link"]) >= TEXT
    for shape in ("edge", "u-held", "u-shared"):
        assert contrast(of[shape], of["card"]) >= SHAPE, shape


def test_a_claim_keeps_its_colour_and_claims_spread_over_all_of_them():
    keys = [ObjectKey("default", f"claim-{number}") for number in range(300)]
    assert [drawing.colour(key) for key in keys] == [drawing.colour(key) for key in keys]
    assert {drawing.colour(key) for key in keys} == set(range(len(drawing.LIGHT)))
    assert drawing.colour(ObjectKey("default", "claim-0")) == 11
    assert drawing.colour(ObjectKey("a", "\udc80")) >= 0


def test_letters_go_on_after_z():
    assert [drawing.letters(at) for at in (0, 25, 26, 51, 52, 701, 702)] == [
        "A", "Z", "AA", "AZ", "BA", "ZZ", "AAA",
    ]  # fmt: skip
    made = [drawing.letters(at) for at in range(2000)]
    assert len(set(made)) == len(made)
    assert all(len(one) <= len(other) for one, other in pairwise(made))


def test_names_that_can_be_shown_are_not_changed():
    assert shown("gpu-0.example.com/Gerät-名前") == "gpu-0.example.com/Gerät-名前"


def test_what_hides_or_turns_text_is_made_visible():
    assert shown("a\u202egnp.exe\u2066\x00\n\u200bz") == "a�gnp.exe����z"


def test_long_names_keep_head_and_tail():
    made = shown("head" + "x" * 5000 + "tail")
    assert len(made) == LONGEST_NAME
    assert made.startswith("headx")
    assert made.endswith("xtail")
    assert shown("y" * LONGEST_NAME) == "y" * LONGEST_NAME
    assert shown("abcdef", 5) == "ab…ef"


@given(st.text(), st.text())
def test_anchors_are_safe_ids_and_tell_names_apart(one: str, other: str):
    assert anchor(one).isalnum()
    assert (anchor(one) == anchor(other)) == (one == other)
    assert anchor("a", "bc") != anchor("ab", "c")


@given(
    st.lists(st.text(max_size=40), min_size=len(FILTERS), max_size=len(FILTERS)),
    st.lists(st.integers(1, 10**6), min_size=len(PAGES), max_size=len(PAGES)),
)
def test_an_address_says_what_the_query_says(filters: list[str], pages: list[int]):
    query = Query(*(text.strip() for text in filters), *pages)  # type: ignore[arg-type]
    pairs = parse_qs(urlsplit(query.url("/")).query)
    assert Query.read({name: values[0] for name, values in pairs.items()}) == query


def test_nonsense_is_taken_for_nothing():
    assert Query.read({"page": "-1"}) == Query()
    assert Query.read({"page": "1e9", "node": "  "}) == Query()
    assert Query.read({"page": "٣"}) == Query()
    assert Query.read({"page": "0"}) == Query()
    assert len(Query.read({"claim": "x" * 10_000}).claim) == 512
