"""The parser on kept tables reads what lark reads, and a file that does not fit does no harm."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.cel import parser_tables, reading
from reconciler.cel.errors import CelRefused
from reconciler.cel.grammar import BEGINNINGS
from reconciler.cel.parser import Parser
from reconciler.cel.tree import Node
from tests.tools.checkout import SHARED
from tests.tools.examples import examples
from tests.tools.lark_parser import read_with_lark

EVERYTHING = 'device.driver == "d" && !(1 in [1, 2,]) || {"a": r"\\"}.?a.orValue(b"") ? x.y(z)[0] : null'
PARTS = [
    *("device", ".driver", ".attributes", "['d.io']", ".x", ".?y", "[?0]", "has", "x", "inner", "in", "true"),
    *("falsey", "null", "r", "b", "rb", "e", "u", "f(", "(", ")", "[", "]", "{", "}", ",", ":", "?", ".?"),
    *("&&", "||", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "!", "&", "=", "\\", "#"),
    *("0", "1", "-1", "1u", "0x1F", ".5", "1.", "1e3", "-1.5e-3", "''", "'a'", '"b"', "r'\\d'", "b'x'"),
    *(
        "'''c\n'",
        "'''",
        '"""d"""',
        "R'''e'''",
        "'",
        '"',
        "//",
        "// f\n",
        " ",
        "\n",
        "\t",
        "é",
        "\ud800",
        "while",
    ),
]
"""Pieces of expressions, whole and broken"""


def _outcome(read: Callable[[str], Node], expression: str) -> str:
    """Nodes are equal to none but themselves; what they print has all their parts."""
    try:
        return repr(read(expression))
    except CelRefused as refused:
        return str(refused)


def _alike(expression: str) -> None:
    assert _outcome(reading.read, expression) == _outcome(read_with_lark, expression)


@examples(150)
@given(st.lists(st.sampled_from(PARTS), max_size=12).map("".join))
def test_it_reads_what_lark_reads(expression: str):
    _alike(expression)


@examples(60)
@given(st.data())
def test_it_reads_what_lark_reads_where_a_character_of_a_selector_is_another(data: st.DataObject):
    text = data.draw(st.sampled_from(_selectors()))
    at = data.draw(st.integers(0, len(text)))
    _alike(text[:at] + data.draw(st.sampled_from([*PARTS, ""])) + text[at + data.draw(st.integers(0, 1)) :])


def test_it_reads_what_lark_reads_of_all_known_selectors():
    for expression in _selectors():
        _alike(expression)


def _selectors() -> list[str]:
    """Those that others have written, if they are here."""
    found = [EVERYTHING, *(f"{EVERYTHING[:at]} " for at in range(len(EVERYTHING)))]
    cel = SHARED / "conformance" / "cel"
    if cel.is_dir():
        found += [case["expression"] for case in json.loads((cel / "selectors.json").read_text())["cases"]]
        found += [case["expression"] for case in json.loads((cel / "upstream.json").read_text())]
        found += (SHARED / "samples" / "cel-expressions.txt").read_text().splitlines()
    return found


@pytest.mark.parametrize("name", BEGINNINGS)
def test_a_token_begins_as_is_said(name: str):
    (terminal,) = [one for one in parser_tables.parser_tables().terminals if one.name == name]
    assert terminal.pattern is not None

    @examples(40)
    @given(st.from_regex(re.compile(terminal.pattern), fullmatch=True))
    def check(token: str) -> None:
        assert token.startswith(tuple(BEGINNINGS[name]))

    check()


def test_every_pattern_has_its_beginnings():
    for terminal in parser_tables.parser_tables().terminals:
        assert (terminal.pattern is None) == (terminal.name not in BEGINNINGS)


def test_the_kept_tables_are_those_of_the_installed_grammar():
    """If not: `make tables`."""
    assert parser_tables._KEPT.read_text() == parser_tables.tables_text()


@pytest.mark.parametrize("content", [None, "", "[", "[]", "{}", '{"made_from": "another grammar"}'])
def test_without_a_file_that_fits_the_tables_are_made(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if content is not None:
        (tmp_path / "tables.json").write_text(content)
    monkeypatch.setattr(parser_tables, "_KEPT", tmp_path / "tables.json")
    made = Parser(parser_tables.parser_tables(), reading._Builder(), reading._PASSED_ON)
    assert repr(made.parse(EVERYTHING)) == repr(reading.read(EVERYTHING))
