"""`POST /whatif`: HTTP requests for what-if analysis. The caller provides the analysis.

The body holds the manifests, as YAML or JSON; the query holds `count`, and any number of `without` and
`drain`. Slices in the body count as if they were published.
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
"""Size of a body"""
MAX_COUNT = 1_000
MAX_NAMES = 100
"""Claims and nodes that one question may leave out"""
READ_SECONDS = 10.0
"""Timeout to read the body"""
ANSWER_SECONDS = 60.0
"""Timeout of the answer. Large fleets need most of it to build a snapshot."""
TYPES = frozenset({"application/json", "application/yaml", "application/x-yaml", "text/yaml"})
"""A page in a browser cannot send these to another site without CORS permission"""


class Busy(Exception):
    """Another question is in progress, or not all objects are listed yet."""


@dataclass(frozen=True, slots=True)
class Options:
    """The parameters of the query."""

    count: int | None
    without: frozenset[ObjectKey]
    drained: frozenset[str]


Ask = Callable[[str, Options], Awaitable[dict[str, Any]]]
"""Takes the text of the body and returns the answer as JSON. Raises Rejected or Busy."""


def whatif_routes(ask: Ask, *, seconds: float = ANSWER_SECONDS) -> list[Route]:
    """The route `/whatif`."""

    async def whatif(request: web.BaseRequest) -> web.StreamResponse:
        if request.content_type not in TYPES:
            return _text_response(415, f"unsupported content type; use {' or '.join(sorted(TYPES)[:2])}")
        try:
            options = _options(request)
            text = await _text(request)
            async with asyncio.timeout(seconds):
                result = await ask(text, options)
        except Rejected as exc:
            return _text_response(400, str(exc))
        except Busy as exc:
            return _text_response(429, str(exc), {"Retry-After": "5"})
        except TimeoutError:
            return _text_response(503, f"no answer within {seconds:g} seconds", {"Retry-After": "60"})
        return web.Response(text=json.dumps(result, indent=2) + "\n", content_type="application/json")

    return [Route(PATH, whatif, methods=("POST",))]


def _options(request: web.BaseRequest) -> Options:
    query = request.query
    unknown = sorted(set(query) - {"count", "without", "drain"})
    if unknown:
        raise Rejected(f"unknown option {unknown[0]}; use count, without or drain")
    without, drained = query.getall("without", []), query.getall("drain", [])
    if len(without) + len(drained) > MAX_NAMES:
        raise Rejected(f"without and drain may name at most {MAX_NAMES} claims and nodes")
    return Options(_count(query.getall("count", [])), frozenset(map(_key, without)), frozenset(drained))


def _count(given: list[str]) -> int | None:
    if not given:
        return None
    text = given[-1]
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and 1 <= int(text) <= MAX_COUNT):
        raise Rejected(f"count must be a number from 1 to {MAX_COUNT}")
    return int(text)


def _key(name: str) -> ObjectKey:
    namespace, _, last = name.rpartition("/")
    return ObjectKey(namespace or "default", last)


async def _text(request: web.BaseRequest) -> str:
    """The body. Raises HTTPRequestEntityTooLarge, status 413."""
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


def _text_response(status: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers=headers)
