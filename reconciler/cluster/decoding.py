"""Cuts what a server sends: streams into lines, pages and events into objects; decodes JSON, also if it
nests deeply.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterable
from typing import Any, NamedTuple

import msgspec
import structlog
from pydantic_core import from_json

from reconciler.errors import Retry

DEEPEST = 200
"""Nesting levels that are decoded. A server accepts thousands in the opaque parameters of a claim."""

LONGEST_OBJECT = 4 * 2**20
"""Maximum bytes of one object. etcd stores up to 1.5 MiB; the decoded object takes up to 30 times that."""

_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)


class Listing(NamedTuple):
    """One page of a listing."""

    items: list[bytes]
    version: str
    token: str
    """Of the next page; empty on the last one"""
    mark: str | None
    """Replaces parts of items that nest too deeply; see `decode`"""


class _Page(msgspec.Struct):
    metadata: dict[str, Any]
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_page = msgspec.json.Decoder(_Page).decode
_event = msgspec.json.Decoder(_Event).decode


def cut_listing(text: bytes) -> Listing:
    """A page of a listing, with items as text. Raises ValueError for other texts."""
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
    """The type and the text of the object of an event. None if the line must be decoded."""
    try:
        event = _event(line)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return event.type, bytes(event.object)


def decode(text: bytes) -> tuple[Any, str | None]:
    """The value, and None. If it nests too deeply: the upper levels, and the mark that replaces the rest.

    An object with the mark is incomplete and must be refused. It still has its name and version, so
    that it does not stop a listing or a watch. Raises ValueError for invalid JSON.
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
    """Whether a decoded value contains the mark."""
    if isinstance(value, dict):
        return any(holds(part, mark) for part in value.values())
    if isinstance(value, list):
        return any(holds(part, mark) for part in value)
    return bool(value == mark)


def _mark(text: bytes) -> str:
    """A string that does not occur in the text."""
    mark = "nested too deeply"
    while mark.encode() in text:
        mark += "."
    return mark


def _cut(text: bytes, mark: bytes) -> bytes:
    """The text, with every list and map below the deepest level replaced by the mark."""
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


log = structlog.get_logger()


async def complete_lines(chunks: AsyncIterable[bytes], *, limit: int) -> AsyncGenerator[bytes, None]:
    """The complete lines of a stream, of at most `limit` bytes each, without line ends and blank lines.

    A chunk may end anywhere, even within a character. Raises Retry for a line that is too long, after those
    before it. What follows the last line end was cut and is dropped, never parsed: it might read as something
    else than was meant.
    """
    pieces: list[bytes] = []
    size = 0
    async for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for end in whole:
            line = b"".join((*pieces, end))
            pieces, size = [], 0
            if len(line) > limit:
                raise Retry(f"a line of {len(line)} bytes; at most {limit} are read")
            if line and not line.isspace():
                yield line
        if rest:
            pieces.append(rest)
            size += len(rest)
            if size > limit:
                raise Retry(f"a line of more than {limit} bytes")
    if size:
        log.debug("watch stream ended within a line", dropped=size)
