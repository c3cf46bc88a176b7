"""JSON of a server as Python values, however deeply somebody nested the opaque parts of an object."""

import re
from typing import Any

from pydantic_core import from_json

DEEPEST = 200
"""Levels that the decoder goes down. A server accepts thousands in the opaque parameters of a claim."""

_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)


def decode(text: bytes) -> tuple[Any, str | None]:
    """The value, and None; or, where it nests too deeply, what is above and the mark that replaces the rest.

    An object that holds the mark is incomplete and must be refused, but still has its name and
    version, so that one such object does not stop a listing or a watch. Raises ValueError for
    what is not JSON.
    """
    try:
        return from_json(text), None
    except ValueError:
        mark = "nested too deeply"
        while mark.encode() in text:
            mark += "."
        shallow = _cut(text, b'"%b"' % mark.encode())
        if shallow == text:
            raise
        return from_json(shallow), mark


def holds(value: Any, mark: str) -> bool:
    """Whether the mark occurs anywhere in a decoded value. It is as deep as `decode` goes, no deeper."""
    if isinstance(value, dict):
        return any(holds(part, mark) for part in value.values())
    if isinstance(value, list):
        return any(holds(part, mark) for part in value)
    return bool(value == mark)


def _cut(text: bytes, mark: bytes) -> bytes:
    """The text with the mark in place of every list and map below the deepest level."""
    pieces, depth, kept = [], 0, 0
    for match in _BRACKET.finditer(text):
        bracket = match.group()
        if bracket in (b"[", b"{"):
            depth += 1
            if depth == DEEPEST + 1:
                pieces.append(text[kept : match.start()])
        elif bracket in (b"]", b"}"):
            if depth == DEEPEST + 1:
                pieces.append(mark)
                kept = match.end()
            depth -= 1
    return b"".join(pieces) + text[kept:]
