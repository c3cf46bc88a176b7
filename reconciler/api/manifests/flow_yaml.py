"""Parses a mapping or list that YAML writes on one line, such as `{name: gpu-0, kinds: [a, 'b']}`.

It takes plain keys and nothing but ASCII, and declines every other text.
"""

import re
from typing import Any

from reconciler.api.manifests.scalars import RESOLVERS, VALUE_OF

DEEPEST = 10
"""Levels of nesting on one line"""

_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_./-]*):\ +", re.ASCII)
_SCALAR = re.compile(
    r"""
    (?:
        "(?P<double>[\ !\#-\[\]-~]*)"
      | '(?P<single>(?:[\ -&(-~]|'')*)'
      | (?P<plain>
            (?:[A-Za-z0-9_/.+~(]|-(?=[A-Za-z0-9.]))
            (?:[A-Za-z0-9_/.+~();=@\ "'&|!<>-]|:(?=[A-Za-z0-9]))* (?<!\ )
        )
    )
    (?=\ *[,\]}])
    """,
    re.VERBOSE | re.ASCII,
)
_SPACES = re.compile(r"\ *")


class Declined(Exception):
    """The text is not of this form, or no YAML at all."""


def parse(text: str) -> dict[str, Any] | list[Any]:
    """The value of a text that begins with `{` or `[`. Raises Declined."""
    value, end = _collection(text, 0, 1)
    if end != len(text):
        raise Declined
    return value


def fresh(value: Any) -> Any:
    """A copy that shares no mapping and no list."""
    if type(value) is dict:
        return {key: fresh(part) for key, part in value.items()}
    return [fresh(part) for part in value] if type(value) is list else value


def scalar(text: str) -> Any:
    """The value of a plain scalar. Raises Declined for what is no value of its type."""
    for tag, pattern in RESOLVERS.get(text[0], ()):
        if pattern.match(text):
            try:
                return VALUE_OF[tag](text)
            except (ValueError, IndexError):
                raise Declined from None
    return text


def is_key(text: str) -> bool:
    """Whether a plain key is a string: `no` and `1` are not. Raises Declined as `scalar`."""
    return isinstance(scalar(text), str)


def _collection(text: str, at: int, depth: int) -> tuple[Any, int]:
    """The mapping or list that opens at a position, and the position behind it."""
    if depth > DEEPEST:
        raise Declined
    mapping: dict[str, Any] | None = {} if text[at] == "{" else None
    items: list[Any] = []
    made, close = (items, "]") if mapping is None else (mapping, "}")
    at = _behind_spaces(text, at + 1)
    while not text.startswith(close, at):
        key = ""
        if mapping is not None:
            key, at = _key(text, at)
            if key in mapping:
                raise Declined
        value, at = _value(text, at, depth)
        if mapping is None:
            items.append(value)
        else:
            mapping[key] = value
        at = _behind_spaces(text, at)
        if text.startswith(",", at):
            at = _behind_spaces(text, at + 1)  # the last one may have a comma, too
        elif not text.startswith(close, at):
            raise Declined
    return made, at + 1


def _key(text: str, at: int) -> tuple[str, int]:
    match = _KEY.match(text, at)
    if match is None or not is_key(match[1]):
        raise Declined
    return match[1], match.end()


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    if text.startswith(("{", "["), at):
        return _collection(text, at, depth + 1)
    match = _SCALAR.match(text, at)
    if match is None:
        raise Declined
    found, end = match[match.lastgroup or 0], match.end()
    match match.lastgroup:
        case "plain":
            return scalar(found), end
        case "single":
            return found.replace("''", "'"), end
    return found, end


def _behind_spaces(text: str, at: int) -> int:
    match = _SPACES.match(text, at)
    assert match is not None
    return match.end()
