"""The tables of the parser: made by `lark` from the grammar, and kept in `parser_tables.json`.

Making them takes 0.1 s and loads `lark`; reading them takes 2 ms. The file names the grammar that it was made
from; with another one, the tables are made. `make tables` writes the file.
"""

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from reconciler.cel.grammar import BEGINNINGS, grammar_source, grammar_text

END = "$END"
"""The terminal behind the last token"""
_KEPT = Path(__file__).with_name("parser_tables.json")


class Terminal(NamedTuple):
    """A kind of token. Of terminals that match at one place, the first counts."""

    name: str
    pattern: str | None
    """A regular expression; None if the token is always the same text"""
    begins: Sequence[str] | None
    """The texts that one can begin with, or the one text it always is; None if that is not known"""
    ignored: bool
    """Whether it separates tokens and is none itself"""


class Rule(NamedTuple):
    """A rule of the grammar."""

    name: str
    size: int
    """Its parts"""
    spliced: Sequence[int]
    """Parts whose value is a list that takes its place, from the last on"""


class Tables(NamedTuple):
    """The tables of a parser."""

    terminals: Sequence[Terminal]
    rules: Sequence[Rule]
    states: Sequence[Mapping[str, int]]
    """Of each state: terminal or rule -> the next state; ~n to replace the parts of rule n. It begins at 0"""
    end: int
    """The state of a complete text"""


def parser_tables() -> Tables:
    """The kept tables, or new ones if the file is missing or made from another grammar."""
    return _kept() or _made({})


def tables_text() -> str:
    """The content of the file, for the grammar that is installed."""
    return json.dumps({"made_from": _origin(), **_made(BEGINNINGS)._asdict()}, separators=(",", ":")) + "\n"


def _kept() -> Tables | None:
    try:
        kept: dict[str, Any] = json.loads(_KEPT.read_bytes())
        if kept.pop("made_from") != _origin():
            return None
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return None
    return Tables(
        tuple(Terminal(*terminal) for terminal in kept["terminals"]),
        tuple(Rule(*rule) for rule in kept["rules"]),
        kept["states"],
        kept["end"],
    )


def _origin() -> str:
    """A digest of all that the tables follow from."""
    return hashlib.sha256(grammar_source().encode()).hexdigest()


def _made(beginnings: Mapping[str, Sequence[str]]) -> Tables:
    """The tables of the grammar. States are numbered in the order in which texts reach them."""
    from lark import Lark  # noqa: PLC0415

    made = Lark(grammar_text(), start="expr", parser="lalr", keep_all_tokens=True, maybe_placeholders=False)
    table = made.parser.parser._parse_table
    rules = sorted(made.rules, key=str)
    rule_number = {rule: number for number, rule in enumerate(rules)}
    numbers = {table.start_states["expr"]: 0}
    found = [table.start_states["expr"]]
    for state in found:
        for _, (_, to) in sorted(table.states[state].items()):
            if to in table.states and to not in numbers:
                numbers[to] = len(numbers)
                found.append(to)
    states = [
        {
            symbol: numbers[to] if to in numbers else ~rule_number[to]
            for symbol, (_, to) in sorted(table.states[state].items())
        }
        for state in found
    ]
    return Tables(
        tuple(_terminals(made, beginnings)),
        tuple(Rule(rule.origin.name, len(rule.expansion), _spliced(rule)) for rule in rules),
        states,
        numbers[table.end_states["expr"]],
    )


def _spliced(rule: Any) -> list[int]:
    return [
        at
        for at, part in reversed([*enumerate(rule.expansion)])
        if not part.is_term and part.name.startswith("_")
    ]


def _terminals(made: Any, beginnings: Mapping[str, Sequence[str]]) -> Iterator[Terminal]:
    """In the order in which `lark` tries them."""
    for one in sorted(
        made.terminals, key=lambda t: (-t.priority, -t.pattern.max_width, -len(t.pattern.value), t.name)
    ):
        fixed = one.pattern.type == "str"
        yield Terminal(
            one.name,
            None if fixed else one.pattern.to_regexp(),
            [one.pattern.value] if fixed else beginnings.get(one.name),
            one.name in made.ignore_tokens,
        )


if __name__ == "__main__":
    sys.stdout.write(tables_text())
