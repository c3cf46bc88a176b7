"""One device, and processes on it whose way to the server is led by hand."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from reconciler import app
from reconciler.api.validation.served_kinds import CLAIM
from reconciler.cluster.transport import Request, Response, WatchRequest
from reconciler.embedded import ApiServer
from reconciler.settings import Settings
from tests.tools.simulation import fleet
from tests.tools.simulation.clock import SimulationLoop
from tests.tools.simulation.ground import EPOCH
from tests.tools.simulation.memory import InMemory

LONG = 60.0
"""Seconds in which a successor has taken over and decided"""


def wanted(name: str) -> Any:
    return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": name}}]}}


class Wire:
    """The way of one process to the server. It may hear nothing of claims, and lose writes on it."""

    def __init__(self, api: ApiServer) -> None:
        self._behind = InMemory(api)
        self.deaf = False
        self.loses = ""
        """How the paths end of writes that are lost on it; empty if none are"""
        self.lost: list[Callable[[], Awaitable[Response]]] = []
        """What may still arrive of it"""
        self.answer: asyncio.Future[Response | Exception] = asyncio.get_running_loop().create_future()
        """What comes back to whoever sent them, if ever"""

    async def send(self, request: Request) -> Response:
        async def arrive() -> Response:
            return await self._behind.send(request)

        if self.loses and request.method == "PATCH" and request.path.endswith(self.loses):
            self.lost.append(arrive)
            answer = await asyncio.shield(self.answer)
            if isinstance(answer, Exception):
                raise answer
            return answer
        return await arrive()

    @asynccontextmanager
    async def stream(self, request: WatchRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self._behind.stream(request) as lines:
            yield self._heard(lines) if request.path.endswith("/resourceclaims") else lines

    async def _heard(self, lines: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        async for line in lines:
            if self.deaf:
                await asyncio.Event().wait()
            yield line


class Stage:
    """A server with one device of the fleet at first, and processes on it."""

    def __init__(self, loop: SimulationLoop) -> None:
        self.loop = loop
        self.api = ApiServer(now=lambda: EPOCH, random=Random(0))
        self.api.load([fleet.node("n1")])
        self.add_device("n1")

    def add_device(self, pool: str) -> None:
        """Publish a device of the node, in a pool of its own."""
        spec = {
            "driver": fleet.GPU,
            "nodeName": "n1",
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d0"}],
        }
        slice_ = {"apiVersion": fleet.DRA, "kind": "ResourceSlice", "metadata": {"name": pool}, "spec": spec}
        self.api.load([slice_])

    def start(self, settings: Settings) -> tuple[Wire, asyncio.Task[None]]:
        wire = Wire(self.api)
        return wire, self.loop.create_task(app.run(settings, wire, stop=asyncio.Event()))

    def held(self) -> list[str]:
        """The claims that hold a device."""
        claims = (record.object for record in self.api.store[CLAIM].scan(""))
        return [claim["metadata"]["name"] for claim in claims if "allocation" in claim.get("status", {})]

    async def until(self, true: Callable[[], object]) -> None:
        """Wait until something holds."""
        async with asyncio.timeout(LONG):
            while not true():  # noqa: ASYNC110 - any change on the server may make it true
                await asyncio.sleep(0.1)


def staged(play: Callable[[Stage], Awaitable[Any]]) -> Any:
    """Play something in virtual time, in the same way each time: the pauses of back-offs are random."""
    random.seed(0)
    loop = SimulationLoop()

    async def play_it() -> Any:
        return await play(Stage(loop))

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(play_it())
