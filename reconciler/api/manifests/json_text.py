"""Parses a sequence of JSON values, with the same rules as for YAML: no duplicate keys, no NaN."""

import json
from collections.abc import Iterator
from typing import Any, NoReturn

from reconciler.api.manifests.parsing import MAX_DEPTH, ParseError


def parse_all(text: str) -> Iterator[tuple[int, Any]]:
    """The lines (from zero) and values of all JSON values in `text`. Raises ParseError."""
    position = 0
    while (position := _after_space(text, position)) < len(text):
        try:
            value, end = _DECODER.raw_decode(text, position)
        except json.JSONDecodeError as exc:
            raise ParseError(f"{exc.msg} (JSON)", exc.lineno - 1, exc.colno - 1) from exc
        except RecursionError as exc:
            raise ParseError("nested too deeply (JSON)", text.count("\n", 0, position), 0) from exc
        except ValueError as exc:
            raise ParseError(str(exc), text.count("\n", 0, position), 0) from exc
        if _deeper(value, MAX_DEPTH):
            raise ParseError(f"nested deeper than {MAX_DEPTH} levels", text.count("\n", 0, position), 0)
        yield text.count("\n", 0, position), value
        position = end


def _after_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def _deeper(value: Any, levels: int) -> bool:
    """Whether a value has more levels of objects and arrays. Iterates level by level, without recursion."""
    level = [value] if value.__class__ in _NESTING else []
    for _ in range(levels):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if outer.__class__ is dict else outer)
            if inner.__class__ in _NESTING
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


_NESTING = (dict, list)
"""What the decoder makes of objects and arrays: these very types"""
_DECODER = json.JSONDecoder(object_pairs_hook=_without_double_keys, parse_constant=_no_constant)
