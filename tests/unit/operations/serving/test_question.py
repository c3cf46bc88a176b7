"""Questions that are refused before anybody answers them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from reconciler.operations.serving.access import Local
from reconciler.operations.serving.port import StatusPort
from reconciler.operations.serving.questions import question_route
from reconciler.operations.serving.server import serving
from reconciler.settings import Settings
from tests.tools.patience import PATIENCE
from tests.tools.watched_reconciler import utc_now

pytestmark = pytest.mark.loopback


async def never(_: web.BaseRequest, __: str) -> dict[str, Any]:
    raise AssertionError


async def post(kind: str, body: AsyncIterator[bytes], **terms: float) -> tuple[int, str]:
    """Status and text of the refusal."""
    port = StatusPort(Local())
    port.add(question_route("/ask", never, **terms))
    async with (
        serving(port, Settings(), now=utc_now) as url,
        asyncio.timeout(PATIENCE),
        aiohttp.ClientSession() as session,
        session.post(f"{url}/ask", data=body, headers={"Content-Type": kind}) as response,
    ):
        return response.status, await response.text()


async def whole() -> AsyncIterator[bytes]:
    yield b"{}"


async def unfinished() -> AsyncIterator[bytes]:
    yield b"{"
    await asyncio.Event().wait()


async def test_another_content_type_is_told_which_to_use():
    said = "unsupported content type; use application/json or application/yaml\n"
    assert await post("text/plain", whole()) == (415, said)


async def test_a_body_that_does_not_end_has_a_timeout_of_its_own():
    """That of the answer has not begun."""
    said = "the body did not arrive within 0.05 seconds\n"
    assert await post("application/json", unfinished(), read_seconds=0.05, seconds=0.0) == (408, said)
