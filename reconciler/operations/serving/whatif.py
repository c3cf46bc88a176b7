"""`POST /whatif`: HTTP requests for what-if analysis. The caller provides the analysis.

The body holds the manifests; the query holds `count`, and any number of `without` and `drain`. Slices in the
body count as if they were published.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from msgspec import Struct

from reconciler.api.objects.meta import ObjectKey
from reconciler.errors import Rejected
from reconciler.operations.serving.port import Route
from reconciler.operations.serving.question import ANSWER_SECONDS, question_route

PATH = "/whatif"
MAX_COUNT = 1_000
MAX_NAMES = 100
"""Claims and nodes that one question may leave out"""


class Options(Struct, frozen=True):
    """The parameters of the query."""

    count: int | None
    without: frozenset[ObjectKey]
    drained: frozenset[str]


Ask = Callable[[str, Options], Awaitable[dict[str, Any]]]
"""Takes the text of the body and returns the answer as JSON. Raises Rejected or Busy."""


def whatif_routes(ask: Ask, *, seconds: float = ANSWER_SECONDS) -> list[Route]:
    """The route `/whatif`."""

    async def reply(request: web.BaseRequest, text: str) -> dict[str, Any]:
        return await ask(text, _options(request))

    return [question_route(PATH, reply, seconds=seconds)]


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
