"""Parses YAML as tools print it: one key or item a line, values on their line, nothing but ASCII.

`parse` declines every other text, which is left to `yaml_text`. Lines repeat in manifests of a fleet, so each
distinct line is taken apart once.
"""

import re
from typing import Any, Final, NamedTuple

from reconciler.api.manifests.scalars import VALUE_OF, Loader
from reconciler.api.manifests.yaml_text import MAX_DEPTH

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
      | '(?P<single>[\ -&(-~]*)'
      | (?P<empty>\{\}|\[\])
      | (?P<plain>
            (?!.*:\ ) (?!.*:$)
            (?:[A-Za-z0-9_/.+~(]|-(?=[A-Za-z0-9.])) [A-Za-z0-9_/.+~(),:;=@\ -]* (?<!\ )
        )
    )?
    """,
    re.VERBOSE,
)


class _Line(NamedTuple):
    """A line taken apart."""

    first: int
    """Column of the dash, else of the key or value"""
    column: int
    """Column of the key or value"""
    is_item: bool
    key: str | None
    value: Any
    """_NOTHING if the line has none; the type of an empty mapping or list"""


def parse(text: str) -> Any:
    """The value of a document, or DECLINED."""
    lines = text.split("\n")
    if lines[0] == "---":
        del lines[0]
    root: dict[str, Any] = {}
    try:
        _fill(root, lines)
    except _Declined:
        return DECLINED
    return root or DECLINED


class _Declined(Exception):
    """The text is not of this form."""


def _fill(root: dict[str, Any], lines: list[str]) -> None:
    """Add the content of lines to an empty mapping. Raises _Declined."""
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
                raise _Declined
            made: Any = [] if is_item else {}
            top[waiting] = made
            top, column = made, first
        elif first > column:
            raise _Declined  # the value of the line before goes on
        waiting = None
        while first < column or (first == column and not is_item and type(top) is list):
            column, top = outer.pop()
        if first != column or is_item is (type(top) is dict):
            raise _Declined
        if value is dict or value is list:
            value = value()
        if key is None:
            top.append(value)
            continue
        if is_item:
            outer.append((column, top))
            if len(outer) > MAX_DEPTH:
                raise _Declined
            made = {}
            top.append(made)
            top, column = made, inner
        if key in top:
            raise _Declined
        top[key] = value
        if value is _NOTHING:
            top[key], waiting = None, key


def _take_apart(text: str) -> _Line:
    """A line that is not kept yet. Raises _Declined."""
    stripped = text.lstrip(" ")
    if not stripped or stripped[0] == "#":
        if not (text.isascii() and text.isprintable()):
            raise _Declined  # YAML has no control characters; comments with tabs are rare
        return _keep(text, _SKIPPED)
    match = _LINE.fullmatch(text) if len(text) <= LONGEST_LINE else None
    if match is None:
        raise _Declined
    found = match.groupdict()
    key, indent, dash = found["key"], len(found["indent"]), bool(found["dash"])
    if key is not None and not isinstance(_plain(key), str):
        raise _Declined
    value = _value(found)
    if key is None and (value is _NOTHING or not dash):
        raise _Declined
    return _keep(text, _Line(indent, indent + 2 * dash, dash, key, value))


def _keep(text: str, line: _Line) -> _Line:
    if len(text) <= LONGEST_KEPT:
        if len(_known) >= CACHE_SIZE:
            _known.clear()
        _known[text] = line
    return line


def _value(found: dict[str, str | None]) -> Any:
    for name in ("double", "single"):
        if (quoted := found[name]) is not None:
            return quoted
    if found["empty"] is not None:
        return dict if found["empty"] == "{}" else list
    return _NOTHING if found["plain"] is None else _plain(found["plain"])


def _plain(text: str) -> Any:
    """The value of a plain scalar. Raises _Declined for what is no value of its type."""
    for tag, pattern in Loader.yaml_implicit_resolvers.get(text[0], ()):
        if pattern.match(text):
            try:
                return VALUE_OF[tag](text)
            except (ValueError, IndexError):
                raise _Declined from None
    return text


_SKIPPED: Final = _Line(0, 0, False, None, _NOTHING)
_known: dict[str, _Line] = {}
