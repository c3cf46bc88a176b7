"""Cuts what a server sends: streams into lines, pages and events into objects. This takes a twentieth of the
time of decoding them.
"""

from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import msgspec
import structlog

from reconciler.api.versions.reading import DEEPEST, trimmed
from reconciler.errors import Retry

T = TypeVar("T")


class Listing(NamedTuple):
    """One page of a listing."""

    items: list[bytes]
    version: str
    token: str
    """Of the next page; empty on the last one"""


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
    page = _cut(_page, text, "listing")
    version, token = page.metadata.get("resourceVersion"), page.metadata.get("continue")
    return Listing([bytes(item) for item in page.items or ()], str(version or ""), str(token or ""))


def cut_event(line: bytes) -> tuple[str, bytes]:
    """The type and the text of the object of an event. Raises ValueError for other texts."""
    event = _cut(_event, line, "event")
    return event.type, bytes(event.object)


def _cut(decoder: Callable[[bytes], T], text: bytes, what: str) -> T:
    """A text that was cut. Objects that nest too deeply for that are trimmed, and are refused later."""
    with suppress(msgspec.MsgspecError, RecursionError):
        return decoder(text)
    try:
        return decoder(trimmed(text, 2 * DEEPEST))
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise ValueError(f"no {what}: {exc}") from exc


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
