"""Splits chunks of a stream into lines. A chunk may end anywhere, even within a character."""

from collections.abc import AsyncGenerator, AsyncIterable

import structlog

from reconciler.errors import Retry

log = structlog.get_logger()


async def complete_lines(chunks: AsyncIterable[bytes], *, limit: int) -> AsyncGenerator[bytes, None]:
    """The complete lines, without line ends and without blank lines.

    What follows the last line end was cut and is dropped, never parsed: it might read as something
    else than was meant. Raises Retry for a line of more than `limit` bytes.
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
            if line.strip():
                yield line
        pieces.append(rest)
        size += len(rest)
        if size > limit:
            raise Retry(f"a line of more than {limit} bytes")
    if size:
        log.debug("watch stream ended within a line", dropped=size)
