"""The kept tables are those that would be built, and a file that does not fit does no harm."""

from pathlib import Path
from typing import Any

import pytest
from lark import Lark, Transformer
from lark.tree import Tree

from reconciler.cel import parser
from reconciler.cel.grammar import grammar_text

EXPRESSION = 'device.driver == "d" && !(1 in [1, 2,]) || {"a": r"\\"}.?a.orValue(b"") ? x.y(z)[0] : null'


def test_the_kept_tables_are_those_of_the_installed_grammar():
    """If not: `make tables`. Built twice, the same states have other numbers."""
    assert parser._kept() is not None
    kept = parser.make_parser(Transformer())
    assert {(one.name, str(one.pattern)) for one in kept.terminals} == {
        (one.name, str(one.pattern)) for one in BUILT.terminals
    }
    assert {*map(str, kept.rules)} == {*map(str, BUILT.rules)}
    assert parse(kept) == TREE


@pytest.mark.parametrize("content", [None, "", "[", "{}", '{"made_from": "another grammar"}'])
def test_without_a_file_that_fits_the_tables_are_built(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if content is not None:
        (tmp_path / "tables.json").write_text(content)
    monkeypatch.setattr(parser, "_TABLES", tmp_path / "tables.json")
    assert parse(parser.make_parser(Transformer())) == TREE


def parse(made: Lark) -> Tree[Any]:
    return made.parse(EXPRESSION)


BUILT = Lark(grammar_text(), start="expr", parser="lalr", keep_all_tokens=True, maybe_placeholders=False)
TREE = parse(BUILT)
