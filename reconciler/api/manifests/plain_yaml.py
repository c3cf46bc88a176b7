"""Parses YAML as tools print it and people write it: a key or item a line, values on their line, only ASCII.

`parse` declines every other text, which is left to `yaml_text`. Lines repeat in manifests of a fleet, so each
distinct line is taken apart once.
"""

import re
from typing import Any, Final, NamedTuple

from reconciler.api.manifests.flow_yaml import DEEPEST, Declined, fresh, is_key, scalar
from reconciler.api.manifests.flow_yaml import parse as parse_flow
from reconciler.api.manifests.parsing import MAX_DEPTH

LONGEST_LINE = 1000
"""Characters. YAML allows 1,024 for a key."""
CACHE_SIZE, LONGEST_KEPT = 1 << 16, 200
"""Distinct lines that are kept, then all are dropped; and their characters: longer ones seldom repeat"""

DECLINED: Final = object()
"""No value: the text is not of this form, or no YAML at all"""

_NOTHING: Final = object()

_LINE = re.compile(
    r"""
    (?P<indent>\ *) (?P<dash>-\ )?
    (?: (?P<key>[A-Za-z_][A-Za-z0-9_./-]*): (?:\ +(?=\S)|$) )?
    (?:
        "(?P<double>[\ !\#-\[\]-~]*)"
      | '(?P<single>(?:[\ -&(-~]|'')*)'
      | (?P<empty>\{\}|\[\])
      | (?P<flow>[\{\[].*[\}\]])
      | (?P<plain>
            (?!.*:\ ) (?!.*:$)
            (?:[A-Za-z0-9_/.+~(]|-(?=[A-Za-z0-9.])) [A-Za-z0-9_/.+~(),:;=@\ "'\[\]{}<>&|!?*-]* (?<!\ )
        )
    )?
    """,
    re.VERBOSE,
)


class _Flow(NamedTuple):
    """A mapping or list on one line, of which each use of the line takes a copy."""

    value: Any


class _Line(NamedTuple):
    """A line taken apart."""

    first: int
    """Column of the dash, else of the key or value"""
    column: int
    """Column of the key or value"""
    is_item: bool
    key: str | None
    value: Any
    """_NOTHING if the line has none; the type of an empty mapping or list; or a _Flow"""


def parse(text: str) -> Any:
    """The value of a document, or DECLINED."""
    lines = text.split("\n")
    begin = next((number for number, line in enumerate(lines) if line and line[0] != "#"), 0)
    if lines[begin] == "---":
        del lines[begin]
    root: dict[str, Any] = {}
    try:
        _fill(root, lines)
    except Declined:
        return DECLINED
    return root or DECLINED


def _fill(root: dict[str, Any], lines: list[str]) -> None:
    """Add the content of lines to an empty mapping. Raises Declined."""
    top: Any = root
    column = 0
    outer: list[tuple[int, Any]] = [(-1, None)]
    """The collections around `top` with their columns; around `root` is nothing, where no line can be"""
    waiting: str | None = None
    """The last key of `top`, if its line had no value"""
    known = _known.get
    for text in lines:
        line = known(text) or _take_apart(text)
        if line is _SKIPPED:
            continue
        first, inner, is_item, key, value = line
        if waiting is not None and (first > column or (is_item and first == column)):
            outer.append((column, top))
            if len(outer) > MAX_DEPTH:
                raise Declined
            made: Any = [] if is_item else {}
            top[waiting] = made
            top, column = made, first
        elif first > column:
            raise Declined  # the value of the line before goes on
        waiting = None
        while first < column or (first == column and not is_item and type(top) is list):
            column, top = outer.pop()
        if first != column or is_item is (type(top) is dict):
            raise Declined
        if type(value) in _SHARED:
            value = _own(value, len(outer))
        if key is None:
            top.append(value)
            continue
        if is_item:
            outer.append((column, top))
            if len(outer) > MAX_DEPTH:
                raise Declined
            made = {}
            top.append(made)
            top, column = made, inner
        if key in top:
            raise Declined
        top[key] = value
        if value is _NOTHING:
            top[key], waiting = None, key


def _own(value: Any, depth: int) -> Any:
    """The mapping or list for one use of a line. Raises Declined where it could be nested too deeply."""
    if type(value) is not _Flow:
        return value()
    if depth + DEEPEST > MAX_DEPTH:
        raise Declined
    return fresh(value.value)


def _take_apart(text: str) -> _Line:
    """A line that is not kept yet. Raises Declined."""
    stripped = text.lstrip(" ")
    if not stripped or stripped[0] == "#":
        if not (text.isascii() and text.isprintable()):
            raise Declined  # YAML has no control characters; comments with tabs are rare
        return _keep(text, _SKIPPED)
    match = _LINE.fullmatch(text) if len(text) <= LONGEST_LINE else None
    if match is None:
        raise Declined
    found = match.groupdict()
    key, indent, dash = found["key"], len(found["indent"]), bool(found["dash"])
    if key is not None and not is_key(key):
        raise Declined
    value = _value(found)
    if key is None and (value is _NOTHING or not dash):
        raise Declined
    return _keep(text, _Line(indent, indent + 2 * dash, dash, key, value))


def _keep(text: str, line: _Line) -> _Line:
    if len(text) <= LONGEST_KEPT:
        if len(_known) >= CACHE_SIZE:
            _known.clear()
        _known[text] = line
    return line


def _value(found: dict[str, str | None]) -> Any:
    if (quoted := found["double"]) is not None:
        return quoted
    if (quoted := found["single"]) is not None:
        return quoted.replace("''", "'")
    if found["empty"] is not None:
        return dict if found["empty"] == "{}" else list
    if (flow := found["flow"]) is not None:
        return _Flow(parse_flow(flow))
    return _NOTHING if found["plain"] is None else scalar(found["plain"])


_SHARED: Final = (type, _Flow)
"""Types of values that stand for a mapping or list"""
_SKIPPED: Final = _Line(0, 0, False, None, _NOTHING)
_known: dict[str, _Line] = {}
