"""A transport that answers from a script, on whatever clock the loop has. No sockets."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from reconciler.cluster.events import complete_lines
from reconciler.cluster.transport import Request, Response, WatchRequest, refusal
from reconciler.errors import ReconcilerError, Retry


@dataclass(frozen=True)
class Sent:
    """A request that was sent, and when."""

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    body: Any = None
    content_type: str = ""
    at: float = 0.0


@dataclass(frozen=True)
class Wait:
    """A silence of so many seconds within a stream."""

    seconds: float


class Scripted:
    """Answers requests in the order of the script, streams likewise; then nothing comes any more.

    Steps of a stream: an event, bytes as they are, an error, Wait, or None for silence without end.
    """

    def __init__(self, *answers: Response | ReconcilerError, streams: list[Any] | None = None) -> None:
        self.answers = list(answers)
        self.streams = streams or []
        self.requests: list[Sent] = []
        self.before_answer: Callable[[], None] = lambda: None

    async def send(self, request: Request) -> Response:
        self._note(request)
        self.before_answer()
        await asyncio.sleep(0)
        if not self.answers:
            await asyncio.Event().wait()
        answer = self.answers.pop(0)
        if isinstance(answer, ReconcilerError):
            raise answer
        return answer

    @asynccontextmanager
    async def stream(self, request: WatchRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        self._note(request)
        await asyncio.sleep(0)
        script = self.streams.pop(0) if self.streams else [None]
        if isinstance(script, Response):
            raise refusal("GET", request.path, script)
        if isinstance(script, ReconcilerError):
            raise script
        yield complete_lines(self._play(script, request.idle), limit=10**6)

    async def _play(self, script: list[Any], idle: float) -> AsyncIterator[bytes]:
        for step in script:
            match step:
                case Wait(seconds) if seconds > idle:
                    await asyncio.sleep(idle)
                    raise Retry(f"nothing for {idle} s")
                case Wait(seconds):
                    await asyncio.sleep(seconds)
                case None:
                    await asyncio.Event().wait()
                case bytes():
                    yield step
                case ReconcilerError():
                    raise step
                case _:
                    yield json.dumps(step).encode() + b"\n"

    def _note(self, request: Request | WatchRequest) -> None:
        method, body, content_type = "GET", None, ""
        if isinstance(request, Request):
            method = request.method
            if request.body:
                body, content_type = request.body, request.content_type
        at = asyncio.get_running_loop().time()
        self.requests.append(Sent(method, request.path, dict(request.query), body, content_type, at))


def ok(value: Any, status: int = 200) -> Response:
    return Response(status, {}, json.dumps(value).encode())


def status(code: int, message: str = "no", headers: dict[str, str] | None = None, **more: Any) -> Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "code": code,
        **more,
    }
    return Response(code, headers or {}, json.dumps(body).encode())
