"""HTTP requests that ask a question with manifests: `POST /whatif`, `POST /fit`. The caller answers them.

The body holds the manifests, as YAML or JSON. An answer is JSON, also if something does not fit.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from reconciler.errors import Rejected
from reconciler.operations.serving.port import Route

MAX_BYTES = 2**20
"""Size of a body"""
READ_SECONDS = 10.0
"""Timeout to read the body"""
ANSWER_SECONDS = 60.0
"""Timeout of the answer. Large fleets need most of it to build a snapshot."""
NAMED_TYPES = ("application/json", "application/yaml")
"""Content types that a refusal names"""
TYPES = frozenset({*NAMED_TYPES, "application/x-yaml", "text/yaml"})
"""A page in a browser cannot send these to another site without CORS permission"""


class Busy(Exception):
    """Another question is in progress, or not all objects are listed yet."""


Reply = Callable[[web.BaseRequest, str], Awaitable[dict[str, Any]]]
"""Takes a request and the text of its body; returns the answer as JSON. Raises Rejected or Busy."""


def question_route(
    path: str, reply: Reply, *, seconds: float = ANSWER_SECONDS, read_seconds: float = READ_SECONDS
) -> Route:
    """The route of one kind of question. `read_seconds` are for its body, `seconds` for the answer."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.content_type not in TYPES:
            return _text_response(415, f"unsupported content type; use {' or '.join(NAMED_TYPES)}")
        try:
            text = await _text(request, read_seconds)
            async with asyncio.timeout(seconds):
                result = await reply(request, text)
        except Rejected as exc:
            return _text_response(400, str(exc))
        except Busy as exc:
            return _text_response(429, str(exc), {"Retry-After": "5"})
        except TimeoutError:
            return _text_response(503, f"no answer within {seconds:g} seconds", {"Retry-After": "60"})
        return web.Response(text=json.dumps(result, indent=2) + "\n", content_type="application/json")

    return Route(path, handle, methods=("POST",))


async def _text(request: web.BaseRequest, seconds: float) -> str:
    """The body. Raises HTTPRequestEntityTooLarge (413), HTTPRequestTimeout (408), and Rejected."""
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise web.HTTPRequestEntityTooLarge(MAX_BYTES, len(body))
    except TimeoutError as exc:
        reason = f"the body did not arrive within {seconds:g} seconds"
        raise web.HTTPRequestTimeout(reason=reason) from exc
    try:
        return body.decode()
    except UnicodeDecodeError as exc:
        raise Rejected("the body is not UTF-8") from exc


def _text_response(status: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers=headers)
