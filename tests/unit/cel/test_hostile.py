"""Hostile expressions end in an error, quickly, and leave the process unchanged."""

import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from msgspec.structs import replace

from reconciler.cel.errors import COST_LIMIT, MAX_LENGTH, CelError, CelRefused
from reconciler.cel.evaluation import Frame
from reconciler.cel.program import Selector, compile_selector
from reconciler.cel.values import DeviceView
from tests.tools.cel_rows import masked, plain, rows_of
from tests.tools.checkout import ROOT

DEVICE = DeviceView(driver="d.io", attributes={"d.io": {"text": "ab" * 32, "n": 1}})
SECONDS = 60.0
"""Of processor time. Generous: a stall takes minutes or forever."""


def _times(part: str, joined_by: str = "") -> str:
    """As many parts as fit in an expression."""
    count = MAX_LENGTH // (len(part) + len(joined_by)) - 2
    return joined_by.join([part] * count)


def _binds(first: str, doubling: Callable[[str], str], last: Callable[[str], str], count: int) -> str:
    """Names bound to twice the previous one."""
    inner = last(f"v{count}")
    for index in range(count, 0, -1):
        inner = f"cel.bind(v{index}, {doubling(f'v{index - 1}')}, {inner})"
    return f"cel.bind(v0, {first}, {inner})"


TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
ANY_N = 'device.attributes["d.io"].n'

REFUSED = {
    "parentheses": "(" * 3000 + "true" + ")" * 3000,
    "open parentheses": "(" * MAX_LENGTH,
    "lists": "[" * 3000 + "]" * 3000 + " == []",
    "indexes": "device" + "[0]" * 3000,
    "selections": "device" + _times(".a"),
    "calls": "''" + _times(".trim()") + " == ''",
    "additions": _times("1", "+") + " == 1",
    "comparisons": _times("true", "=="),
    "conditionals": _times("true?true:") + "true",
    "binds": "cel.bind(a, 1, " * 600 + "true" + ")" * 600,
    "length": "'" + "a" * MAX_LENGTH + "' == ''",
    "an open string": "'" + "a" * 10_000,
    "an open long string": "'''" + "a" * 10_000,
    "quotes": "'''" + '"""\'' * 2000,
    "a huge regular expression": "''.matches('((a{100}){100}){100}')",
    "unpaired surrogate": "'\ud800' == ''",
}
LOOPS = f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, {TEN}.all(d, {TEN}.all(e, {TEN}.all(f, a > 0))))))"
TEXT, LIST = "'a' + device.driver", "[device.driver]"
ERRORS = {
    "nested loops": LOOPS,
    "loops over a range": "lists.range(1000000000).all(x, x >= 0)",
    "loops over ranges": "lists.range(2000).all(x, lists.range(2000).all(y, x + y >= 0))",
    "a doubled string": _binds(TEXT, lambda v: f"{v} + {v}", lambda v: f"{v} == ''", 60),
    "a doubled list": _binds(LIST, lambda v: f"{v} + {v}", lambda v: f"{v}.size() == 0", 60),
    "a doubled tree": _binds(LIST, lambda v: f"[{v}, {v}]", lambda v: f"{v} == {v}", 60),
    "a printed tree": _binds(LIST, lambda v: f"[{v}, {v}]", lambda v: f"'%s'.format([{v}]) == ''", 60),
    "a flat tree": _binds(LIST, lambda v: f"[dyn({v}), dyn({v})]", lambda v: f"{v}.flatten(99) == []", 60),
    "a replaced string": _binds(TEXT, lambda v: f"{v}.replace('d', {v} + {v})", lambda v: f"{v} == ''", 30),
    "a joined string": _binds(TEXT, lambda v: f"[{v}, {v}].join({v})", lambda v: f"{v} == ''", 40),
    "a long text found backwards": _binds(
        TEXT, lambda v: f"{v} + {v}", lambda v: f"({v} + {v}).lastIndexOf('b' + {v}) == 0", 18
    ),
    "a precise number": "('%.999999999f' + device.driver).format([1.0]) == ''",
    "distinct elements": "lists.range(5000).distinct().size() == 1",
    "a slow pattern": _binds(TEXT, lambda v: f"{v} + {v}", lambda v: f"{v}.matches('.*(a|b){{500}}c')", 18),
    "many patterns": r"lists.range(90000).exists(x, 'a'.matches(string(x) + '\\pL{1000}'))",
    "patterns that are none": "lists.range(90000).exists(x, 'a'.matches('(' + string(x)))",
    "a long number": "int('" + "9" * 5000 + "' + device.driver) == 1",
    "a printed list of long texts": _binds(
        TEXT, lambda v: f"{v} + {v}", lambda v: f"'%s'.format([lists.range(9000).map(x, {v})]) == ''", 16
    ),
    "a search that reads all the rest for each match": _binds(
        TEXT, lambda v: f"{v} + {v}", lambda v: f"{v}.findAll('.*b|.').size() == 0", 16
    ),
    "paths of a long URL": _binds(
        TEXT,
        lambda v: f"{v} + {v}",
        lambda v: f"cel.bind(u, url('/é' + {v}), lists.range(90000).all(x, u.getEscapedPath() != ''))",
        17,
    ),
    "long URLs that are compared": _binds(
        TEXT,
        lambda v: f"{v} + {v}",
        lambda v: (
            f"cel.bind(a, url('/' + {v}), cel.bind(b, url('/' + {v}), lists.range(60000).all(x, a == b)))"
        ),
        15,
    ),
    "time zones that are none": (
        "lists.range(90000).exists(x, timestamp(x).getHours('z' + string(x)) < 0) || true"
    ),
    "a sum too large": "[9223372036854775807, 1].sum() == 0",
}


@pytest.mark.parametrize("expression", REFUSED.values(), ids=REFUSED)
def test_what_is_too_long_or_too_deep_is_refused(expression: str):
    before, started = sys.getrecursionlimit(), time.process_time()
    with pytest.raises(CelRefused):
        compile_selector(expression)
    assert time.process_time() - started < SECONDS
    assert sys.getrecursionlimit() == before


@pytest.fixture
def _a_tenth_of_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends at a tenth of the limit ends at all of it, after a second of work."""
    monkeypatch.setattr(Frame.__init__, "__defaults__", (COST_LIMIT // 10,))


@pytest.mark.usefixtures("_a_tenth_of_the_steps")
@pytest.mark.parametrize("expression", ERRORS.values(), ids=ERRORS)
def test_expressions_beyond_the_cost_limit_are_errors(expression: str):
    started = time.process_time()
    selector = compile_selector(expression)
    if len(expression) % 2:  # both end at the same limit
        assert plain(selector, DEVICE) == "error"
    else:
        assert masked(selector, rows_of([DEVICE])) == ["error"]
    assert time.process_time() - started < SECONDS


LONG = {
    "a parameter with many values": (
        "'a&'",
        lambda v: f"url('/?' + {v}).getQuery() == {{'a': lists.range(131072).map(x, '')}}",
    ),
    "digits that end in another character": ("'11'", lambda v: f"double({v} + 'x') != 1.0"),
    "hexadecimal digits that end in another character": (
        "'11'",
        lambda v: f"double('0x' + {v} + 'px') != 1.0",
    ),
}


@pytest.mark.parametrize(("first", "last"), LONG.values(), ids=LONG)
def test_a_long_text_takes_no_more_time_than_its_length(first: str, last: Callable[[str], str]):
    started = time.process_time()
    plain(compile_selector(_binds(first, lambda v: f"{v} + {v}", last, 17)), DEVICE)
    assert time.process_time() - started < SECONDS


@pytest.mark.parametrize("chain", [" || ", " && "])
def test_a_long_chain_of_logic_is_a_flat_tree(chain: str):
    selector = compile_selector(_times("device.driver == 'd.io'", chain))
    assert plain(selector, DEVICE) is True
    assert masked(selector, rows_of([DEVICE])) == [True]


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 240 + "true" + ")" * 240,
        "!" * 10_000 + "true",
        "'a'" + ".trim()" * 100 + " == 'a'",
        "true ? true : " * 100 + "true",
        "+".join(["1"] * 100) + " == 100",
        "[" * 100 + "]" * 100 + ".size() == 1",
        "[1].all(x, " * 50 + "true" + ")" * 50,
        "cel.bind(x, 1, " * 100 + "x == 1" + ")" * 100,
    ],
)
def test_the_deepest_accepted_expression_runs_far_below_the_stack_limit(expression: str):
    def deeper(levels: int) -> bool:
        if levels:
            return deeper(levels - 1)
        return Selector(expression).matches(DEVICE)

    assert deeper(300)


@pytest.mark.usefixtures("_a_tenth_of_the_steps")
def test_no_operator_absorbs_an_exhausted_budget():
    bomb = LOOPS
    assert plain(compile_selector(f"true || {bomb}"), DEVICE) is True
    assert masked(compile_selector(f"{bomb} || true"), rows_of([DEVICE])) == ["error"]
    assert masked(compile_selector(f"true || {bomb}"), rows_of([DEVICE])) == [True]
    assert masked(compile_selector(f"{ANY_N} == 1 || {bomb}"), rows_of([DEVICE])) == [True]


def test_a_cost_bomb_on_every_device_ends():
    """Each device would cost a second; the pass over all devices has a budget too."""
    devices = [DeviceView(driver="d.io", attributes={"d.io": {"n": n}}) for n in range(200)]
    selector = compile_selector(f"lists.range(2000).all(x, lists.range(2000).all(y, x + y + {ANY_N} >= 0))")
    started = time.process_time()
    rows = rows_of(devices)
    assert selector.masks(rows, limit=COST_LIMIT).error.all()
    assert time.process_time() - started < 2 * SECONDS
    assert "steps" in selector.explain(rows, 199)


def test_devices_beyond_the_budget_of_a_pass_explain_it():
    """Each is cheap enough alone, all together are not. None gets a guessed answer."""
    devices = [DeviceView(driver="d.io", attributes={"d.io": {"n": n}}) for n in range(3)]
    selector = compile_selector(f"lists.range(9000).all(x, x + {ANY_N} >= 0)")
    rows = rows_of(devices)
    masks = selector.masks(rows, limit=3 * COST_LIMIT // 20)
    assert masks.true.any()
    assert masks.error[-1]
    assert "all devices" in selector.explain(rows, 2)

    # What was answered is kept, so that the next pass gets further.
    assert selector.masks(replace(rows, version="again"), limit=3 * COST_LIMIT // 20).true.all()


def test_a_path_bound_step_by_step_stays_within_the_depth_limit():
    inner = "v110 == null"
    for index in range(110, 0, -1):
        inner = f"cel.bind(v{index}, v{index - 1}.x, {inner})"
    selector = compile_selector(f'cel.bind(v0, device.attributes["d.io"].n, {inner})')
    assert plain(selector, DEVICE) == "error"


def test_an_exhausted_budget_is_explained():
    selector = compile_selector(LOOPS)
    with pytest.raises(CelError, match="steps"):
        selector.matches(DEVICE)
    assert "steps" in selector.explain(rows_of([DEVICE]), 0)


def test_the_cel_package_is_never_imported():
    """Building its environment changes the recursion limit of the process; its grammar is only read."""
    script = (
        "import sys; before = sys.getrecursionlimit();"
        "from reconciler.cel.program import compile_selector;"
        "compile_selector('device.driver == \"x\"');"
        "print('celpy' in sys.modules, sys.getrecursionlimit() == before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.split() == ["False", "True"]


def test_threads_may_share_the_parser_and_the_selectors():
    rows = rows_of([DEVICE])

    def ask(n: int) -> bool:
        selector = compile_selector(f"{ANY_N} + {n % 7} == {n % 7 + 1}")
        return bool(selector.masks(rows).true.all())

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(200)))


def test_masks_cannot_be_written_to():
    masks = compile_selector("true").masks(rows_of([DEVICE]))
    with pytest.raises(ValueError, match="read-only"):
        masks.true[0] = np.False_
