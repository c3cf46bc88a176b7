"""YAML as Kubernetes reads it, and nothing that a hostile or careless file can do with the rest of YAML."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.manifests.parsing import MAX_ALIASED, MAX_DEPTH, ParseError
from reconciler.api.manifests.parsing import parse_yaml as parse


def problem_of(text: str) -> ParseError:
    with pytest.raises(ParseError) as refused:
        parse(text)
    return refused.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("47:00.0", "47:00.0"),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("=", "="),
        ("<<", "<<"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("1e3", "1e3"),
        ("10Gi", "10Gi"),
        ("0000:47:00.0", "0000:47:00.0"),
        ("'5'", "5"),
        ('"true"', "true"),
        ("!!str 5", "5"),
        ("! 5", 5),
        ("y", "y"),
        ("n", "n"),
        ("yes", True),
        ("Off", False),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("null", None),
        ("", None),
        ("5", 5),
        ("-5", -5),
        ("+5", 5),
        ("0", 0),
        ("017", 15),
        ("0x1F", 31),
        ("-0b11", -3),
        ("1_000", 1000),
        ("08", "08"),
        ("1.5", 1.5),
        ("-1.5e+3", -1500.0),
        (".5", 0.5),
        (".", "."),
        ("-", "-"),
        ("1.2.3", "1.2.3"),
        ("0.5.0", "0.5.0"),
    ],
)
def test_a_plain_scalar_is_read_as_kubernetes_reads_it(text: str, value: object):
    read = parse(f"[{text}]") if text and text not in ("-", "! 5") else parse(text)
    expected = [value] if isinstance(read, list) and text not in ("-",) else value
    if text == "-":
        assert read == [None]  # alone on its line it begins a list
    else:
        assert read == expected
        assert type(read[0] if isinstance(read, list) else read) is type(value)


def test_numbers_and_booleans_as_keys_become_their_text():
    assert parse("{5: a, true: b, 1.5: c}") == {"5": "a", "true": "b", "1.5": "c"}


def test_merge_keys_bring_in_what_is_not_there():
    text = "base: &b {x: 1, y: 1}\nmore: &m {y: 2, z: 2}\nuse: {<<: [*b, *m], x: 9}\nplain: {<<: *m}"
    read = parse(text)
    assert read["use"] == {"x": 9, "y": 1, "z": 2}
    assert read["plain"] == {"y": 2, "z": 2}


def test_aliases_give_copies_of_their_own():
    """Whoever changes one place of a document must not change another."""
    read = parse("a: &x {l: [1]}\nb: *x")
    read["a"]["l"].append(2)
    assert read["b"] == {"l": [1]}


def test_an_anchor_may_be_given_anew():
    assert parse("[&a 1, *a, &a 2, *a]") == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("text", "line", "column", "problem"),
    [
        ("a: 1\nb: 2\na: 3", 2, 0, "the key 'a' occurs twice"),
        ("x:\n  - {k: 1, 'k': 2}", 1, 11, "the key 'k' occurs twice"),
        ("{5: a, '5': b}", 0, 7, "the key '5' occurs twice"),
        ("a: *none", 0, 3, "has no anchor before it"),
        ("a: &a [*a]", 0, 7, "is inside its own anchor"),
        ("a: &a {<<: *a}", 0, 11, "is inside its own anchor"),
        ("a: !!python/object:os.system x", 0, 3, "the tag !!python/object:os.system is not supported"),
        ("a: !custom x", 0, 3, "the tag !custom is not supported"),
        ("a: !!set {x}", 0, 3, "the tag !!set is not supported"),
        ("a: !!binary aGk=", 0, 3, "the tag !!binary is not supported"),
        ("a: !!int x", 0, 3, "'x' is not !!int"),
        ("a: !!int ''", 0, 3, "'' is not !!int"),
        ("? [a]\n: b", 0, 2, "cannot be a key"),
        ("? {a: b}\n: c", 0, 2, "cannot be a key"),
        ("~: a", 0, 0, "a key is missing"),
        ("{<<: 5}", 0, 5, "`<<` takes a mapping"),
        ("{<<: [{a: 1}, 2]}", 0, 5, "`<<` takes a mapping"),
        ("x: &x {a: 1}\ny: {<<: *x, <<: *x}", 1, 12, "a second `<<`"),
        ("a: b: c", 0, 4, "mapping values are not allowed"),
        ("a: [1, 2", 1, 0, "did not find expected"),
        ("a: 'open", 0, 8, "unexpected end of stream"),
        ("a:\n\t- b", 1, 0, "cannot start any token"),
        ("a: \x07", 0, 3, "control characters are not allowed"),
        ("a: {{ .Values.x }}", 0, 4, "cannot be a key"),
        ("%YAML 3.0\n---\na: 1", 0, 0, "incompatible YAML document"),
    ],
)
def test_a_problem_is_named_with_its_place(text: str, line: int, column: int, problem: str):
    found = problem_of(text)
    assert problem in found.problem
    assert (found.line, found.column) == (line, column)


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? ", "[{a: "])
def test_deep_nesting_is_refused_and_does_not_overflow_the_stack(opening: str):
    assert (
        "deeper than" in problem_of(opening * 100_000).problem
        or "cannot be a key" in problem_of(opening * 9).problem
    )


def test_nesting_up_to_the_limit_is_read():
    assert json.dumps(parse("[" * MAX_DEPTH + "]" * MAX_DEPTH)) == "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert "deeper" in problem_of("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)).problem


@pytest.mark.parametrize("use", ["[{}]", "{{k0: {0}, k1: {1}}}", "{{<<: [{}]}}"])
def test_an_alias_bomb_is_refused_before_it_goes_off(use: str):
    lines = ["a0: &a0 {x: [1, 2, 3, 4, 5, 6, 7, 8]}"]
    for level in range(1, 40):
        names = [f"*a{level - 1}"] * 9
        body = use.format(", ".join(names)) if use.count("{}") else use.format(*names)
        lines.append(f"a{level}: &a{level} {body}")
    assert problem_of("\n".join(lines)).problem == f"aliases repeat more than {MAX_ALIASED} values"


def test_a_number_of_too_many_digits_is_refused():
    assert "is not !!int" in problem_of("a: " + "9" * 5000).problem


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_what_any_json_says_is_read_from_its_yaml(value: object):
    assert parse(yaml.safe_dump(value)) == value


@given(st.text(max_size=60) | st.text("{}[]&*<!-?:|>'\"%@`#, \n\tab1~=", max_size=60))
def test_any_text_is_read_or_refused_with_a_place_in_it(text: str):
    try:
        parse(text)
    except ParseError as exc:
        found = exc
    else:
        return
    assert found.problem
    assert 0 <= found.line <= len(text.splitlines())
