"""Requests with bytes replaced, added, repeated and left out: the port answers on, and tells no secret."""

import asyncio
import io
import os
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import pytest

from reconciler.operations.log_setup import configure
from tests.tools.patience import PATIENCE
from tests.tools.running_reconciler import Cluster
from tests.tools.small_fleet import claim, device_class, devices, node
from tests.tools.watched_reconciler import watched

pytestmark = pytest.mark.loopback

TOKEN = "a-secret-that-nobody-is-told"
AT_ONCE = 16
ANSWERED = 0.05
"""Seconds; half of all requests never get an answer, because they are not complete"""
BODY = b'{"apiVersion":"dra-reconciler.io/v1alpha1","kind":"FitRequest","podSets":[{"name":"s","count":1}]}'
SOUND = (
    b"GET /livez?verbose HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n" % TOKEN.encode(),
    b"POST /fit HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (TOKEN.encode(), len(BODY), BODY),
    b"GET /?group=a&limit=1 HTTP/1.1\r\nHost: [::1]:80\r\nCookie: a=b\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
)


def mutated(random: Random) -> bytes:
    found = bytearray(random.choice(SOUND))
    for _ in range(random.randint(0, 4)):
        at, end = sorted(random.sample(range(len(found) + 1), 2))
        match random.randrange(5):
            case 0:
                found[at : at + 1] = random.randbytes(1)
            case 1:
                found[at:at] = random.randbytes(random.randrange(64))
            case 2:
                del found[at : min(end, at + 16)]
            case 3:
                found[at:at] = found[at:end] * random.choice((1, 2, 50))
            case _:
                found[at:at] = random.choice((b"\r\n", b"\0", b"%00", b"../", b"A" * 9000, b'{"a":' * 200))
    return bytes(found)


async def test_mutated_requests_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stderr", stderr := io.StringIO())
    configure("info", "json")
    number = 200_000 if os.environ.get("SIZE") == "full" else 400
    (tmp_path / "token").write_text(TOKEN)
    statuses = Counter[bytes]()
    cluster = Cluster([device_class(), node("a"), devices("a", "d0", "d1")])
    async with watched(cluster, status_what_if=True, status_token_file=tmp_path / "token") as seen:
        host, port = urlsplit(seen.url).hostname, urlsplit(seen.url).port
        time = asyncio.get_running_loop().time
        asked = time()
        await seen.get("/livez")
        answered = max(ANSWERED, 20 * (time() - asked))  # many are asked at once

        async def send(seeds: range) -> None:
            for seed in seeds:
                reader, writer = await asyncio.open_connection(host, port)
                try:
                    writer.write(mutated(Random(seed)))
                    with suppress(TimeoutError):  # the end of a request cancels its answer
                        said = await asyncio.wait_for(reader.read(2**16), answered)
                        assert TOKEN.encode() not in said
                        statuses.update([said[9:12]])
                    with suppress(OSError):  # ENOTCONN, if the port has reset the connection
                        writer.write_eof()
                    async with asyncio.timeout(PATIENCE):
                        assert TOKEN.encode() not in await reader.read()
                except ConnectionError:
                    pass
                finally:
                    writer.close()

        await asyncio.gather(*(send(range(first, number, AT_ONCE)) for first in range(AT_ONCE)))
        assert (await seen.get("/livez")).status == 200
        assert (await seen.get("/metrics", Authorization=f"Bearer {TOKEN}")).status == 200
        cluster.load(claim("later"))
        await cluster.until(lambda: cluster.devices("later"))
    assert {b"200", b"400", b"401", b"404"} <= statuses.keys()
    assert not statuses[b"500"]
    assert TOKEN not in stderr.getvalue()
