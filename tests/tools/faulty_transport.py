"""A transport that can be told to misbehave: requests held, refused, answered by nobody."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from reconciler.cluster.transport import Lines, Request, Response, Transport, WatchRequest
from reconciler.errors import Undecided

Send = Callable[[], Awaitable[Response]]
Fault = Callable[[Send], Awaitable[Response]]
"""Gets the request to send, or not; gives the answer."""


@dataclass
class Faulty:
    """Passes everything on, except that the next request which fits a fault is given to it."""

    behind: Transport
    faults: list[tuple[str, str, Fault]] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    """Method and path of every write that was passed on"""

    def on(self, method: str, path_end: str, *faults: Fault) -> None:
        """Let the next requests of that kind, one each, meet these faults."""
        self.faults += [(method, path_end, fault) for fault in faults]

    async def send(self, request: Request) -> Response:
        async def send() -> Response:
            if request.method != "GET":
                self.sent.append(f"{request.method} {request.path}")
            return await self.behind.send(request)

        for entry in self.faults:
            if entry[0] == request.method and request.path.endswith(entry[1]):
                self.faults.remove(entry)
                return await entry[2](send)
        return await send()

    def stream(self, request: WatchRequest) -> Lines:
        return self.behind.stream(request)


def answer(status: int, **headers: str) -> Fault:
    """The server refuses; nothing is applied."""

    async def fault(_: Send) -> Response:
        return Response(status, headers, json.dumps({"message": "as told"}).encode())

    return fault


async def lost_answer(send: Send) -> Response:
    """The request is applied, its answer gets lost."""
    await send()
    raise Undecided("the answer got lost")


async def lost_request(_: Send) -> Response:
    """Nothing is applied, and nobody knows."""
    raise Undecided("the request got lost")


class Late:
    """The request reaches the server only when it is let, long after the client gave up."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._meanwhile = meanwhile
        self._send: Send | None = None

    async def __call__(self, send: Send) -> Response:
        self._send = send
        self._meanwhile()
        raise Undecided("no answer in time")

    async def arrive(self) -> Response:
        assert self._send is not None
        return await self._send()


def after(act: Callable[[], object]) -> Fault:
    """Something happens on the server just before the request arrives."""

    async def fault(send: Send) -> Response:
        act()
        return await send()

    return fault


class Held:
    """A request that waits at the door until it is let in."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        self.go = asyncio.Event()

    async def __call__(self, send: Send) -> Response:
        self.arrived.set()
        await self.go.wait()
        return await send()
