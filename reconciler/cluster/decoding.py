"""JSON of a server as Python values, however deeply somebody nested the opaque parts of an object.

Listings and events are cut into their objects first, which costs a twentieth of decoding them.
"""

import re
from typing import Any, NamedTuple

import msgspec
from pydantic_core import from_json

DEEPEST = 200
"""Levels that the decoder goes down. A server accepts thousands in the opaque parameters of a claim."""

LONGEST_OBJECT = 4 * 2**20
"""Bytes of one object that is read. etcd holds 1.5 MiB of it; what comes of it takes up to 30 times that."""

_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)


class Listing(NamedTuple):
    """One page of a listing."""

    items: list[bytes]
    version: str
    token: str
    """Of the next page; empty on the last one"""
    mark: str | None
    """Stands in items where they nest too deeply; see `decode`"""


class _Page(msgspec.Struct):
    metadata: dict[str, Any]
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_page = msgspec.json.Decoder(_Page).decode
_event = msgspec.json.Decoder(_Event).decode


def cut_listing(text: bytes) -> Listing:
    """A page of a listing, its items still text. Raises ValueError for what is no listing."""
    mark = None
    try:
        page = _page(text)
    except (msgspec.MsgspecError, RecursionError):
        mark = _mark(text)
        try:
            page = _page(_cut(text, b'"%b"' % mark.encode()))
        except (msgspec.MsgspecError, RecursionError) as exc:
            raise ValueError(f"no listing: {exc}") from exc
    version, token = page.metadata.get("resourceVersion"), page.metadata.get("continue")
    return Listing([bytes(item) for item in page.items or ()], str(version or ""), str(token or ""), mark)


def cut_event(line: bytes) -> tuple[str, bytes] | None:
    """The type and the text of the object of an event; None where the line has to be decoded to be judged."""
    try:
        event = _event(line)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return event.type, bytes(event.object)


def decode(text: bytes) -> tuple[Any, str | None]:
    """The value, and None; or, where it nests too deeply, what is above and the mark that replaces the rest.

    An object that holds the mark is incomplete and must be refused, but still has its name and
    version, so that one such object does not stop a listing or a watch. Raises ValueError for
    what is not JSON.
    """
    try:
        return from_json(text), None
    except ValueError:
        mark = _mark(text)
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


def _mark(text: bytes) -> str:
    """A text that does not occur."""
    mark = "nested too deeply"
    while mark.encode() in text:
        mark += "."
    return mark


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
