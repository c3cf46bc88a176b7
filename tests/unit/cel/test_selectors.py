"""Compiled selectors are kept by their text, and their answers follow the rows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.cel.program import Selector, compile_selector, spent_on
from reconciler.cel.rows import KEPT_PATCHES, Column, Rows, Where, followed
from reconciler.cel.values import DeviceView
from tests.tools.cel_rows import rows_of
from tests.tools.examples import examples

SIZE = 3


def test_steps_are_known_of_selectors_that_ran_and_asking_compiles_nothing():
    expression = "true || device.driver == 'asked'"
    assert spent_on(expression) == -1
    selector = compile_selector(expression)
    assert spent_on(expression) == -1
    selector.masks(rows_of([DeviceView(driver="d.io")]))
    assert spent_on(expression) == selector.spent >= 0


COUNT = 6
VALUES = ["x", "y", 3, True]
NAMES = [("d", "model"), ("d", "index"), ("e", "model")]
EXPRESSIONS = [
    'device.attributes["d"].model == "x"',
    'device.attributes["d"].model == "x" && device.attributes["d"].index == 3',
    '"e" in device.attributes',
    "device.allowMultipleAllocations",
    'device.driver == "d" ? device.allowMultipleAllocations : device.attributes["e"].model != "y"',
    "device.attributes.exists(domain, size(device.attributes[domain]) > 1)",
]


def made_rows(
    columns: list[list[int]], driver: list[int], shared: list[bool], unreadable: list[bool]
) -> Rows:
    """The first columns are attributes, the last is a capacity that no expression reads."""
    attributes = {
        name: Column(np.array(codes, dtype=np.int32), VALUES)
        for name, codes in zip(NAMES, columns, strict=True)
    }
    return Rows(
        size=COUNT,
        driver=Column(np.array(driver, dtype=np.int32), DRIVERS),
        attributes=attributes,
        capacity={},
        shared=np.array(shared),
        unreadable=np.array(unreadable),
        version=object(),
    )


DRIVERS = ["d", "e"]
CODES = st.lists(st.integers(-1, len(VALUES) - 1), min_size=COUNT, max_size=COUNT)
FLAGS = st.lists(st.booleans(), min_size=COUNT, max_size=COUNT)
ROWS = st.builds(
    made_rows,
    st.lists(CODES, min_size=len(NAMES), max_size=len(NAMES)),
    st.lists(st.integers(0, 1), min_size=COUNT, max_size=COUNT),
    FLAGS,
    st.lists(st.sampled_from([False, False, True]), min_size=COUNT, max_size=COUNT),
)
PLACES: st.SearchStrategy[Where] = st.one_of(
    st.tuples(st.integers(0, COUNT), st.integers(0, COUNT)).map(lambda ends: slice(min(ends), max(ends))),
    st.lists(st.integers(0, COUNT - 1), unique=True).map(lambda rows: np.array(sorted(rows), dtype=np.intp)),
)


def patched(before: Rows, other: Rows, where: Where, which: set[int]) -> Rows:
    """The rows before, with some columns of others in some places. All other arrays are shared."""

    def one(number: int, own: np.ndarray, its: np.ndarray) -> np.ndarray:
        if number not in which:
            return own
        found = own.copy()
        found[where] = its[where]
        return found

    attributes = {
        name: Column(one(number, column.codes, other.attributes[name].codes), column.values)
        for number, (name, column) in enumerate(before.attributes.items())
    }
    now = replace(
        before,
        driver=Column(one(3, before.driver.codes, other.driver.codes), DRIVERS),
        attributes=attributes,
        shared=one(4, before.shared, other.shared),
        unreadable=one(5, before.unreadable, other.unreadable),
        version=object(),
        patches=(),
    )
    return followed(now, before, where)


STEPS = st.lists(
    st.tuples(ROWS, PLACES, st.sets(st.integers(0, 5)), st.booleans()), min_size=1, max_size=KEPT_PATCHES + 2
)


@examples(100)
@given(st.sampled_from(EXPRESSIONS), ROWS, STEPS)
def test_answers_that_follow_patches_are_those_of_all_rows(expression, beginning, steps):
    selector = compile_selector(expression)
    selector.masks(beginning)
    now = beginning
    for other, where, which, looked in steps:
        now = patched(now, other, where, which)
        if looked:
            selector.masks(now)
    found = selector.masks(now)
    at_once = Selector(expression).masks(replace(now, patches=(), version=object()))
    assert found.true.tolist() == at_once.true.tolist()
    assert found.error.tolist() == at_once.error.tolist()


def test_answers_beyond_the_limit_are_not_kept():
    """Devices that had no answer because of the limit get one on the next rows, changed or not."""
    selector = Selector(EXPRESSIONS[0])
    beginning = made_rows([[0, 1, 2, 3, -1, 0]] * 3, [0] * COUNT, [False] * COUNT, [False] * COUNT)
    assert selector.masks(beginning, limit=1).error.any()
    now = patched(beginning, beginning, slice(0, 1), {4})
    assert selector.masks(now).error.tolist() == [False, False, False, False, True, False]
