"""A reconciler with its status port on a socket, and a client that asks there."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import aiohttp
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from reconciler.cluster.client import Client
from reconciler.cluster.http import connect
from reconciler.embedded import serve
from reconciler.operations.serving.port import StatusPort
from reconciler.operations.serving.server import access_for, serving
from tests.tools.faulty_transport import Faulty
from tests.tools.patience import PATIENCE
from tests.tools.running_reconciler import Cluster, Running
from tests.tools.tuned import tuned

OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass
class Answer:
    status: int
    text: str
    headers: dict[str, str]


async def ask(
    url: str, headers: dict[str, str] | None = None, *, tls: ssl.SSLContext | bool = True, method: str = "GET"
) -> Answer:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, headers=headers, ssl=tls) as response,
    ):
        return Answer(response.status, await response.text(), dict(response.headers))


@dataclass(kw_only=True)
class Watched(Running):
    """A reconciler at work, and where it is looked at."""

    url: str
    port: StatusPort

    async def get(self, path: str, **headers: str) -> Answer:
        return await ask(f"{self.url}{path}", headers)

    async def families(self) -> dict[str, Metric]:
        answer = await self.get("/metrics", **OPENMETRICS)
        assert answer.status == 200
        return {family.name: family for family in text_string_to_metric_families(answer.text)}

    async def value(self, name: str, **labels: str) -> float | None:
        """One sample by its full name; None if there is none."""
        for family in (await self.families()).values():
            for sample in family.samples:
                if sample.name == name and sample.labels == labels:
                    return sample.value
        return None

    async def until(self, true: Callable[[], Awaitable[bool]]) -> None:
        """Ask again until what was asked for holds; the server sets the pace."""
        async with asyncio.timeout(PATIENCE):
            while not await true():
                continue


@asynccontextmanager
async def watched(
    cluster: Cluster, *, prepare: Callable[[Faulty], None] = lambda _: None, **flags: Any
) -> AsyncIterator[Watched]:
    """Run a reconciler beside the block, with a status port."""
    loop = asyncio.get_running_loop()
    async with serve(cluster.api) as server, connect(server=server) as transport:
        settings = tuned(**{"embedded": True, "server": server, **flags})
        faulty = Faulty(transport)
        prepare(faulty)
        port = StatusPort(access_for(settings, Client(transport), loop.time))
        async with serving(port, settings, now=utc_now) as url:
            found = Watched(faulty=faulty, stop=asyncio.Event(), url=url, port=port)
            async with found.at_work(settings, port):
                yield found
