"""An LALR(1) parser over kept tables: no library is loaded and nothing is built before the first expression.

Which tokens are looked for depends on the state, as in `lark`, from whose analysis the tables are: behind an
operand `-1` is a minus and a number, elsewhere a negative number. A pattern is compiled when a text has a
character that it can begin with.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from reconciler.cel.parser_tables import END, Tables

Build = Callable[[list[Any]], Any]
"""The value of a rule, from those of its parts"""


class Token(str):
    """A piece of the text."""

    __slots__ = ("at", "kind")

    at: int
    """Where it begins"""
    kind: str
    """Its terminal"""


class Unexpected(Exception):
    """The text has no meaning from `at` on. `token` is what is there, None if it is no token at all."""

    def __init__(self, at: int, token: str | None) -> None:
        super().__init__(at, token)
        self.at = at
        self.token = token


class _Attempt(NamedTuple):
    """A terminal that may be at a place with a certain first character."""

    kind: str
    ignored: bool
    begins: str | tuple[str, ...]
    """What stands there if it is; empty if the first character says as much"""
    match: Callable[[str, int], re.Match[str] | None] | None
    """None if it is always the same text: `begins`"""


_Begun = dict[str, tuple[_Attempt, ...]]
"""First character -> what to look for there, in order"""


class Parser:
    """Parses texts with tables. Threads may share it."""

    def __init__(self, tables: Tables, builder: object, passed_on: Collection[str]) -> None:
        """`builder` has a method for each rule. Rules in `passed_on` are, with one part alone, that part."""
        self._terminals = tables.terminals
        self._states = tables.states
        self._end = tables.end
        self._rules: list[tuple[str, int, Sequence[int], Build | None]] = [
            (
                rule.name,
                rule.size,
                rule.spliced,
                None if rule.size == 1 and rule.name in passed_on else _build(builder, rule.name),
            )
            for rule in tables.rules
        ]
        self._matchers: dict[str, Callable[[str, int], re.Match[str] | None]] = {}
        every = frozenset(terminal.name for terminal in tables.terminals)
        self._accepted = [every.intersection(state) for state in tables.states]
        """Of each state: the terminals that it accepts"""
        self._begun: dict[frozenset[str], _Begun] = {every: {}, **{one: {} for one in self._accepted}}
        self._every = every

    def parse(self, text: str) -> Any:
        """The value of a whole text. Raises Unexpected, and what the methods of the builder raise."""
        all_states, rules = self._states, self._rules
        states, at = [0], 0
        values: list[Any] = []
        while True:
            kind, start, at = self._next(text, at, states[-1])
            action = all_states[states[-1]].get(kind)
            while action is not None and action < 0:
                name, size, spliced, build = rules[~action]
                if build is None:
                    del states[-1]
                else:
                    del states[len(states) - size :]
                    parts = values[len(values) - size :]
                    for place in spliced:
                        parts[place : place + 1] = parts[place]
                    values[len(values) - size :] = [build(parts)]
                states.append(all_states[states[-1]][name])
                if kind == END and states[-1] == self._end:
                    return values[0]
                action = all_states[states[-1]].get(kind)
            if action is None:
                raise Unexpected(start, text[start:at] or None)
            token = Token(text[start:at])
            token.kind, token.at = kind, start
            states.append(action)
            values.append(token)

    def _next(self, text: str, at: int, state: int) -> tuple[str, int, int]:
        """The next terminal, its begin and its end. Raises Unexpected if the state accepts none."""
        accepted, size = self._accepted[state], len(text)
        while at < size:
            found = self._at(text, at, accepted)
            if found is None:
                other = self._at(text, at, self._every)
                raise Unexpected(at, None if other is None else text[at : other[1]])
            attempt, end = found
            if not attempt.ignored:
                return attempt.kind, at, end
            at = end
        return END, at, at

    def _at(self, text: str, at: int, accepted: frozenset[str]) -> tuple[_Attempt, int] | None:
        """The first of some terminals that is at a place, and where it ends."""
        begun, first = self._begun[accepted], text[at]
        if first not in begun:
            begun[first] = tuple(self._beginning_with(first, accepted))
        for attempt in begun[first]:
            if attempt.begins and not text.startswith(attempt.begins, at):
                continue
            if attempt.match is None:
                return attempt, at + len(attempt.begins)
            match = attempt.match(text, at)
            if match is not None:
                return attempt, match.end()
        return None

    def _beginning_with(self, first: str, accepted: Collection[str]) -> Iterator[_Attempt]:
        for terminal in self._terminals:
            begins = tuple(text for text in terminal.begins or (first,) if text[0] == first)
            if not begins or not (terminal.ignored or terminal.name in accepted):
                continue
            if terminal.pattern is None:
                yield _Attempt(terminal.name, terminal.ignored, begins[0], None)
                continue
            if terminal.name not in self._matchers:
                self._matchers[terminal.name] = re.compile(terminal.pattern).match
            told = () if first in begins else begins
            yield _Attempt(terminal.name, terminal.ignored, told, self._matchers[terminal.name])


def _build(builder: object, rule: str) -> Build:
    """The method for a rule. Parts that repeat have rules of their own, whose values are spliced in."""
    return list if rule.startswith("_") else getattr(builder, rule)
