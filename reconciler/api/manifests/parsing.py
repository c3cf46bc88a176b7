"""Parses manifests to plain values: dicts with string keys, lists, strings, numbers, booleans, None.

YAML comes as events from PyYAML, with libyaml if PyYAML was built with it. Values are built from the events
in a loop, since libyaml's own composer overflows the C stack on deep nesting and crashes the process. The
expanded size of aliases and merge keys is counted before they are copied.

JSON has the same rules: no duplicate keys, no NaN.
"""

import copy
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import yaml
from msgspec import Struct

MAX_DEPTH = 100
"""Maximum levels of nesting. The deepest known schemas have about forty."""
MAX_ALIASED = 1_000_000
"""Maximum number of values that all aliases of one document repeat."""


class ParseError(Exception):
    """The text is not valid. `line` and `column` count from zero."""

    def __init__(self, problem: str, line: int, column: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line
        self.column = column


# Plain scalars as Kubernetes reads them. YAML 1.1 has more types: `47:00.0` is a number in base 60 and
# `2024-01-01` is a date. They are strings here, because a PCI address or a timestamp must not change.
TAG = "tag:yaml.org,2002:"
MERGE = f"{TAG}merge"


TEXT = f"{TAG}str"
_PLAIN = [
    (TAG + name, re.compile(pattern), first)
    for name, pattern, first in (
        ("bool", r"yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF|true|True|TRUE|false|False|FALSE", "yYnNoOtTfF"),
        ("int", r"[-+]?(?:0b[01_]+|0[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)", "-+0123456789"),
        ("float", r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
        ("null", r"~|null|Null|NULL", "~nN"),
        ("merge", r"<<", "<"),
    )
]
"""Tags, each with the pattern of its plain scalars and their first characters"""


def _plain_tag(text: str) -> str:
    if not text:
        return f"{TAG}null"
    for tag, pattern, first in _PLAIN:
        if text[0] in first and pattern.fullmatch(text):
            return tag
    return TEXT


def _int(text: str) -> int:
    digits = text.replace("_", "")
    sign, digits = (-1, digits[1:]) if digits[0] == "-" else (1, digits.removeprefix("+"))
    if digits[:2] in ("0b", "0x"):
        return sign * int(digits, 0)
    octal = len(digits) > 1 and digits[0] == "0"
    return sign * int(digits, 8 if octal else 10)


_VALUE_OF: dict[str, Callable[[str], Any]] = {
    TEXT: str,
    TAG + "int": _int,
    TAG + "float": lambda text: float(text.replace("_", "")),
    TAG + "bool": lambda text: text.lower() in ("yes", "true", "on"),
    TAG + "null": lambda _: None,
    MERGE: str,
}
"""Tag -> function from the text of a scalar to its value. A merge key that is not used as a key is text. May
raise ValueError: Python rejects numbers of 5000 digits."""

# libyaml if PyYAML was built with it: about ten times faster, with the same events.
Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse_yaml(text: str) -> Any:
    """The value of the only document in `text`; None if there is none. Raises ParseError."""
    loader = Loader(text)
    try:
        return _Builder(loader).build()
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        problem = ", ".join(filter(None, (exc.context, exc.problem))) or "is not YAML"
        raise ParseError(problem, mark.line if mark else 0, mark.column if mark else 0) from exc
    except yaml.reader.ReaderError as exc:
        before = text[: exc.position] if isinstance(exc.position, int) else ""
        column = len(before) - (before.rfind("\n") + 1)
        raise ParseError(f"{exc.reason}: {exc.character!r}", before.count("\n"), column) from exc
    finally:
        loader.dispose()


class _Open(Struct):
    """A list or mapping whose end event has not arrived."""

    value: Any
    start: yaml.CollectionStartEvent
    is_mapping: bool
    size: int = 1
    key: str | None = None
    awaits_key: bool = True
    merged: dict[str, Any] | None = None
    """The values of `<<`: an earlier source overrides a later one; the mapping's own keys override both"""
    merging: bool = False


class _Builder:
    """Builds the value from events. Keeps the open collections and the values of anchors."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._aliased = 0
        self._documents = 0
        self._root: Any = None

    def build(self) -> Any:
        handlers: dict[type[yaml.Event], Callable[[Any], None]] = {
            yaml.DocumentStartEvent: self._document,
            yaml.ScalarEvent: self._scalar,
            yaml.AliasEvent: self._alias,
            yaml.MappingStartEvent: self._begin,
            yaml.SequenceStartEvent: self._begin,
            yaml.MappingEndEvent: self._end,
            yaml.SequenceEndEvent: self._end,
        }
        while (kind := type(event := self._loader.get_event())) is not yaml.StreamEndEvent:
            if kind in handlers:
                handlers[kind](event)
        return self._root

    def _document(self, event: yaml.DocumentStartEvent) -> None:
        if self._documents:
            raise _at(event, "a second document begins without `---`")
        self._documents += 1

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        tag, text = event.tag, event.value
        if tag is None or tag == "!":
            tag = _plain_tag(text) if event.implicit[0] else TEXT
        if tag == MERGE and self._open and self._open[-1].is_mapping and self._open[-1].awaits_key:
            parent = self._open[-1]
            if parent.merged is not None:
                raise _at(event, "a second `<<` in one mapping; give the first a list")
            parent.awaits_key, parent.merging = False, True
            return
        if tag not in _VALUE_OF:
            raise _at(event, f"the tag {_short(tag)} is not supported")
        try:
            value = _VALUE_OF[tag](text)
        except (ValueError, IndexError) as exc:
            raise _at(event, f"{text[:40]!r} is not {_short(tag)}") from exc
        self._add(value, 1, event.anchor, event)

    def _alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self._anchors:
            unfinished = any(entry.start.anchor == event.anchor for entry in self._open)
            why = "is inside its own anchor" if unfinished else "has no anchor before it"
            raise _at(event, f"the alias *{event.anchor} {why}")
        value, size = self._anchors[event.anchor]
        self._aliased += size
        if self._aliased > MAX_ALIASED:
            raise _at(event, f"aliases repeat more than {MAX_ALIASED} values")
        # A copy, so that a later change in one place does not affect another.
        self._add(copy.deepcopy(value), size, None, event)

    def _begin(self, event: yaml.CollectionStartEvent) -> None:
        mapping = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, "!", TAG + ("map" if mapping else "seq")):
            raise _at(event, f"the tag {_short(event.tag)} is not supported")
        if len(self._open) >= MAX_DEPTH:
            raise _at(event, f"nested deeper than {MAX_DEPTH} levels")
        if self._open and self._open[-1].is_mapping and self._open[-1].awaits_key:
            raise _at(event, "a mapping or list cannot be a key")
        self._open.append(_Open({} if mapping else [], event, mapping))

    def _end(self, _: yaml.CollectionEndEvent) -> None:
        done = self._open.pop()
        value = done.value if done.merged is None else {**done.merged, **done.value}
        self._add(value, done.size, done.start.anchor, done.start)

    def _add(self, value: Any, size: int, anchor: str | None, event: yaml.NodeEvent) -> None:
        if anchor is not None:
            self._anchors[anchor] = (value, size)
        if not self._open:
            self._root = value
            return
        parent = self._open[-1]
        parent.size += size
        if not parent.is_mapping:
            parent.value.append(value)
        elif parent.merging:
            parent.merged = _merged(value, event)
            parent.merging, parent.awaits_key = False, True
        elif parent.awaits_key:
            parent.key = _key(value, event)
            if parent.key in parent.value:
                raise _at(event, f"the key {parent.key[:80]!r} occurs twice in one mapping")
            parent.awaits_key = False
        else:
            parent.value[parent.key] = value
            parent.awaits_key = True


def _merged(value: Any, event: yaml.Event) -> dict[str, Any]:
    sources = value if isinstance(value, list) else [value]
    merged: dict[str, Any] = {}
    for source in sources:
        if not isinstance(source, dict):
            raise _at(event, "`<<` takes a mapping or a list of mappings")
        merged = {**source, **merged}
    return merged


def _key(value: Any, event: yaml.Event) -> str:
    """The key as a string: a number or a boolean becomes its text, as in the API server."""
    if value is None:
        raise _at(event, "a key is missing")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _at(event: yaml.Event, problem: str) -> ParseError:
    mark = event.start_mark
    return ParseError(problem, *((mark.line, mark.column) if mark is not None else (0, 0)))


def _short(tag: str) -> str:
    return tag.replace(TAG, "!!") if tag.startswith(TAG) else tag


def parse_json(text: str) -> Iterator[tuple[int, Any]]:
    """The lines (from zero) and values of all JSON values in `text`. Raises ParseError."""
    position = _SPACE.match(text).end()  # type: ignore[union-attr]
    while position < len(text):
        line = text.count("\n", 0, position)
        try:
            value, end = _DECODER.raw_decode(text, position)
        except json.JSONDecodeError as exc:
            raise ParseError(f"{exc.msg} (JSON)", exc.lineno - 1, exc.colno - 1) from exc
        except RecursionError as exc:
            raise ParseError("nested too deeply (JSON)", line, 0) from exc
        except ValueError as exc:
            raise ParseError(str(exc), line, 0) from exc
        if _deeper(value, MAX_DEPTH):
            raise ParseError(f"nested deeper than {MAX_DEPTH} levels", line, 0)
        yield line, value
        position = _SPACE.match(text, end).end()  # type: ignore[union-attr]


def _deeper(value: Any, levels: int) -> bool:
    """Whether a value has more levels of objects and arrays. Iterates level by level, without recursion."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
    # What is in the innermost allowed level has to be empty.
    return any(level)


def _without_double_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice[:80]!r} occurs twice in one object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder(object_pairs_hook=_without_double_keys, parse_constant=_no_constant)
