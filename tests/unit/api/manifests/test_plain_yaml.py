"""What the fast parser takes means what the careful one reads; it leaves the rest alone."""

from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from perf.fleets import mig
from reconciler.api.manifests import plain_yaml
from reconciler.api.manifests.documents import split
from reconciler.api.manifests.flow_yaml import DEEPEST
from reconciler.api.manifests.parsing import MAX_DEPTH, ParseError
from reconciler.api.manifests.plain_yaml import DECLINED, parse
from reconciler.api.manifests.yaml_text import parse as carefully
from tests.tools.checkout import SHARED


def agree(text: str) -> bool:
    """Whether the fast parser takes a text. If so, types count: 1 is not true."""
    found = parse(text)
    if found is DECLINED:
        return False
    try:
        assert repr(found) == repr(carefully(text)), text
    except ParseError as exc:
        pytest.fail(f"{exc.problem}: {text}")
    return True


def test_manifests_of_a_fleet_are_taken():
    fleet = list(mig.fleet(1))
    assert all(agree(yaml.safe_dump(thing)) for thing in fleet if thing["kind"] != "DeviceClass")
    assert agree("---\n" + yaml.safe_dump(fleet[1], sort_keys=False, explicit_start=False))


TAKEN = [
    "a: 1\nb: '1'\nc: \"1\"\nd: 1.5\ne: yes\nf: null\ng:\nh: ~x\ni: 0x10\nj: 010\nk: 1_000\nl: 47:00.0\n",
    "a:\n- 1\n- b: 2\n  c:\n  - d\n  - e: {}\n    f: []\n- g\nh: x y, z = (1)\n",
    "a:\n  - 1\n  -  b\nc:\n      d: e\n      f: -5\n",
    "# why\na: b\n\n   # more\nc: d\n",
    "a:\n- b:\n- c:\n  d: 2026-11-21\n",
    "a: '# no comment: here'\nb: \"it's\"\n",
    "a: {b: 1, c: {d: [e, 'f, g', \"h: i\"]}, j: [], k: {}}\nl:\n- {m: no, n: x y }\n- [ 1 , -2 ]\n",
    "a:\n- [[~]]\n- {o: 1, }\n- [2,]\n",
    "# why\n\n---\n# what\na: 'it''s'\nb: ['''', x:1, y == 'z' && 'w']\n",
    "a: device.driver == \"gpu.example.com\" && device['x'] in [1]\n",
]


@pytest.mark.parametrize("text", TAKEN, ids=range(len(TAKEN)))
def test_what_tools_print_is_taken(text):
    assert agree(text) or "-  b" in text


LEFT = [
    "",
    "- a\n",
    "a\n",
    "a: b\n  c\n",
    "a: b\n  c: d\n",
    "a: b\n  - c\n",
    "a:\n  b\n",
    "a:\n    b: 1\n  c: 2\n",
    "a: 1\na: 2\n",
    "a: |\n  b\n",
    "a: &x 1\nb: *x\n",
    "<<: {}\n",
    "yes: 1\n1: 2\n",
    "a: b # why\n",
    "a: {b: 1\n",
    "a: {b: 1}}\n",
    "a: {b: 1} # why\n",
    "a: {b: 1}\n  c\n",
    "a: {b: 1, b: 2}\n",
    "a: {b}\n",
    "a: {b: }\n",
    "a: {,}\n",
    "a: [1,,]\n",
    "a: {no: 1}\n",
    "a: [b: 1]\n",
    "a: [b:]\n",
    "a: [1, , 2]\n",
    "a: [*b]\n",
    "a: {<<: {}}\n",
    "a: ['it's']\n",
    "a: [\"\\n\"]\n",
    "a: [ü]\n",
    "a: {1: 2}\n",
    "{a: 1}\n",
    "a: \"\\n\"\n",
    "a: 'it's'\n",
    "a: b\n---\n",
    "a: 'b\n  c'\n",
    "a: !!str 1\n",
    "a:\tb\n",
    "a: ü\n",
    "a: b: c\n",
    "a: b:\n",
    "a: 09\n--- \nb: 1\n",
    "%YAML 1.1\n---\na: 1\n",
    "a: 0b_\n",
    "a:\n- b\nc\n",
    "a:\n - b\n- c\n",
    "# \x07\na: b\n",
    "a: b\n  # \x7f\n",
    "a: b\n#\tc\n",
]  # fmt: skip


@pytest.mark.parametrize("text", LEFT, ids=range(len(LEFT)))
def test_everything_else_is_left_to_the_careful_parser(text):
    assert parse(text) is DECLINED


def test_nesting_is_limited_as_in_the_careful_parser():
    def nested(levels: int) -> str:
        return "".join(f"{' ' * level}a:\n" for level in range(levels)) + " " * levels + "a: 1\n"

    assert agree(nested(MAX_DEPTH - 1))
    assert parse(nested(MAX_DEPTH)) is DECLINED


INDENTS = st.sampled_from(["", "", "  ", "    ", " "])
DASHES = st.sampled_from(["", "", "- ", "- - ", "-"])
KEYS = st.sampled_from(["", "a: ", "b:", "c:  ", "no: ", "a.b/c: ", "x:y: ", '"k": ', "? "])
VALUES = st.sampled_from(
    [
        *("", "1", "x", "x y", "'q'", '"q"', "{}", "[]", "on", "~", "-1", "-", "1e3", ".5", "1.", "0o7"),
        *(
            "{a: b}",
            "[a, 1]",
            "[{a: ~}]",
            "{ a: [] }",
            "[a b , 'c']",
            "[",
            "{a}",
            "[a]]",
            "x [a]",
            "x {a: b}",
        ),
        *("'it''s'", "''", "''''", 'x == "y"', "x & y", "x | y", "x!", "x 'y'"),
        *("12:30", "x: y", "x:", "x #", "#", "{a: 1}", "|", "*a", "+1", "0_", "_1", "0x", "~~", "(a)", "a,b"),
    ]
)
COMMENTS = st.sampled_from(["#", "  # a: b", "#\t", "# \x00", "# \x1b[0m", "# ü", "#\r", " ", "\t"])
LINES = st.builds(lambda *parts: "".join(parts), INDENTS, DASHES, KEYS, VALUES) | COMMENTS | st.just("---")


@given(st.lists(LINES, min_size=1, max_size=7).map("\n".join))
@example("a:\n- b:\n  - c\n- d")
@example("a:\n- b: 1\n c: 2")
@example("b:\n1")
@example("a:\n#x\n  b: 1")
@example("a:\n\n  b: 1\n\n")
def test_any_lines_mean_the_same_to_both_parsers(text):
    agree(text)


FLOW = st.lists(
    st.sampled_from(
        [
            *"{}[],: a1~-'\"#&*!|>%@`?",
            "{a: ",
            "[",
            "], ",
            "b: ",
            "'c'",
            '"d"',
            "e f",
            "no",
            "0x1",
            "12:30",
            "==",
            "''",
            "1.5",
            "a: ",
            "g-",
        ]
    ),
    max_size=12,
).map("".join)


@given(
    FLOW, st.sampled_from(["k: {%s}", "k: [%s]", "- [%s]", "k:\n- {%s}", "k:\n- l: [%s]\n  m: 1", "k: x%s"])
)
@example("a: 'b'", "k: {%s}")
@example("a: b: c", "k: {%s}")
@example("a:b", "k: [%s]")
@example("a#b", "k: [%s]")
@example("a #b", "k: x%s")
def test_any_line_of_mappings_and_lists_means_the_same_to_both_parsers(flow: str, around: str):
    agree(around % flow)


def test_what_is_on_equal_lines_is_not_shared():
    found = parse("a:\n- {b: [1]}\n- {b: [1]}\n")
    found["a"][0]["b"].append(2)
    assert found == {"a": [{"b": [1, 2]}, {"b": [1]}]} != parse("a:\n- {b: [1]}\n- {b: [1]}\n")


def test_nesting_on_one_line_is_limited_together_with_that_around_it():
    assert agree("a: " + "[" * DEEPEST + "]" * DEEPEST)
    assert parse("a: " + "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1)) is DECLINED

    def nested(levels: int) -> str:
        return "".join(f"{' ' * level}a:\n" for level in range(levels)) + " " * levels + "a: {b: 1}\n"

    assert agree(nested(MAX_DEPTH - DEEPEST - 1))
    assert parse(nested(MAX_DEPTH - DEEPEST)) is DECLINED


SAMPLES = SHARED / "samples"


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="there are no published manifests here")
def test_published_manifests_mean_the_same_to_both_parsers():
    files: list[Path] = sorted(SAMPLES.rglob("*.y*ml"))
    taken = [agree(part) for file in files for _, part in split(file.read_text("utf-8", "replace"))]
    assert sum(taken) > len(taken) / 4


def test_long_lines_and_too_many_lines_are_not_kept(monkeypatch: pytest.MonkeyPatch):
    kept: dict[str, object] = {}
    monkeypatch.setattr(plain_yaml, "_known", kept)
    monkeypatch.setattr(plain_yaml, "CACHE_SIZE", 3)
    long = "x" * plain_yaml.LONGEST_KEPT
    assert parse(f"# {long}\na: {long}\nb: 1\nc: 2\n") == {"a": long, "b": 1, "c": 2}
    assert not any(len(line) > plain_yaml.LONGEST_KEPT for line in kept)
    for number in range(10):
        parse(f"k{number}: {number}")
    assert len(kept) <= 3
