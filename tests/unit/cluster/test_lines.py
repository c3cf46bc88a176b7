"""Lines are found wherever a stream is cut into chunks."""

from collections.abc import AsyncIterator

import pytest

from reconciler.cluster.decoding import complete_lines
from reconciler.errors import Retry

TEXT = '{"name":"gerät"}\n\n{"b":2}\r\n{"cut'.encode()


async def chunked(text: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 12, 100])
async def test_chunks_do_not_show(size):
    lines = [line.strip() async for line in complete_lines(chunked(TEXT, size), limit=100)]
    assert lines == ['{"name":"gerät"}'.encode(), b'{"b":2}']


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("end", [b"", b"\n"])
async def test_a_line_beyond_the_limit_is_not_collected(size, end):
    """A server gone mad must not fill our memory."""
    with pytest.raises(Retry, match=r"at most 99|more than 99"):
        [line async for line in complete_lines(chunked(b"x" * 100 + end, size), limit=99)]


async def test_a_line_of_exactly_the_limit_passes():
    assert [line async for line in complete_lines(chunked(b"x" * 99 + b"\n", 10), limit=99)] == [b"x" * 99]
