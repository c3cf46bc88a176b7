"""`POST /whatif`: a question about claims that are not there. Who answers it is given.

The body is what is asked about, as YAML or JSON; the query holds `count`, and `without`, `drain` as often as
wanted. Slices in the body count as if they were published.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from reconciler.api.objects.meta import ObjectKey
from reconciler.errors import Rejected
from reconciler.operations.serving.port import Route

PATH = "/whatif"
MAX_BYTES = 2**20
"""Of a body"""
MAX_COUNT = 1_000
MAX_NAMES = 100
"""Claims or nodes that one question may leave out"""
READ_SECONDS = 10.0
"""For the body to arrive"""
ANSWER_SECONDS = 60.0
"""For the answer, most of which is to put a picture together where there are many devices"""
TYPES = frozenset({"application/json", "application/yaml", "application/x-yaml", "text/yaml"})
"""No page in a browser can send these to another site without being allowed to"""


class Busy(Exception):
    """Another question is being answered, or the picture is not whole yet."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the query says."""

    count: int | None
    without: frozenset[ObjectKey]
    drained: frozenset[str]


Ask = Callable[[str, Options], Awaitable[dict[str, Any]]]
"""Given the text of the body: the answer as JSON. Raises Rejected or Busy"""


def whatif_routes(ask: Ask, *, seconds: float = ANSWER_SECONDS) -> list[Route]:
    """The one route."""

    async def whatif(request: web.BaseRequest) -> web.StreamResponse:
        if request.content_type not in TYPES:
            return _said(415, f"send what is asked about as {' or '.join(sorted(TYPES)[:2])}")
        try:
            options = _options(request)
            text = await _text(request)
            async with asyncio.timeout(seconds):
                found = await ask(text, options)
        except Rejected as exc:
            return _said(400, str(exc))
        except Busy as exc:
            return _said(429, str(exc), {"Retry-After": "5"})
        except TimeoutError:
            return _said(503, f"no answer within {seconds:g} seconds", {"Retry-After": "60"})
        return web.Response(text=json.dumps(found, indent=2) + "\n", content_type="application/json")

    return [Route(PATH, whatif, methods=("POST",))]


def _options(request: web.BaseRequest) -> Options:
    query = request.query
    unknown = sorted(set(query) - {"count", "without", "drain"})
    if unknown:
        raise Rejected(f"there is no option {unknown[0]}; there are count, without and drain")
    without, drained = query.getall("without", []), query.getall("drain", [])
    if len(without) + len(drained) > MAX_NAMES:
        raise Rejected(f"at most {MAX_NAMES} claims and nodes may be left out at once")
    return Options(_count(query.getall("count", [])), frozenset(map(_key, without)), frozenset(drained))


def _count(given: list[str]) -> int | None:
    if not given:
        return None
    text = given[-1]
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and 1 <= int(text) <= MAX_COUNT):
        raise Rejected(f"count is a number from 1 to {MAX_COUNT}")
    return int(text)


def _key(name: str) -> ObjectKey:
    namespace, _, last = name.rpartition("/")
    return ObjectKey(namespace or "default", last)


async def _text(request: web.BaseRequest) -> str:
    """The body. Raises what makes a 413 where it is too large."""
    body = bytearray()
    async with asyncio.timeout(READ_SECONDS):
        async for chunk in request.content.iter_any():
            body += chunk
            if len(body) > MAX_BYTES:
                raise web.HTTPRequestEntityTooLarge(MAX_BYTES, len(body))
    try:
        return body.decode()
    except UnicodeDecodeError as exc:
        raise Rejected("the body is not UTF-8") from exc


def _said(status: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers=headers)
