"""Splits chunks of a stream into lines. A chunk may end anywhere, even within a character."""

from collections.abc import AsyncGenerator, AsyncIterable, Iterator

import structlog

from reconciler.errors import Retry

log = structlog.get_logger()


class LineSplitter:
    """Takes one chunk after another, and keeps the beginning of a line that is not complete yet."""

    def __init__(self, limit: int) -> None:
        """A line has at most `limit` bytes."""
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    def lines(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that this chunk completes, without line ends and without blank lines.

        Take all before the next chunk. Raises Retry for a line that is too long, after those before it.
        """
        *whole, rest = chunk.split(b"\n")
        for end in whole:
            line = end
            if self._pieces:
                line = b"".join((*self._pieces, end))
                self._pieces, self._size = [], 0
            if len(line) > self._limit:
                raise Retry(f"a line of {len(line)} bytes; at most {self._limit} are read")
            if line and not line.isspace():
                yield line
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)
            if self._size > self._limit:
                raise Retry(f"a line of more than {self._limit} bytes")

    def end(self) -> None:
        """The stream ended. What follows the last line end was cut and is dropped, never parsed: it might
        read as something else than was meant.
        """
        if self._size:
            log.debug("watch stream ended within a line", dropped=self._size)


async def complete_lines(chunks: AsyncIterable[bytes], *, limit: int) -> AsyncGenerator[bytes, None]:
    """The complete lines of a stream, of at most `limit` bytes each; see `LineSplitter`."""
    splitter = LineSplitter(limit)
    async for chunk in chunks:
        for line in splitter.lines(chunk):
            yield line
    splitter.end()
