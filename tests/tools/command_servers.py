"""API servers for commands: one that notes the methods of requests, and one in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from reconciler.embedded import ApiServer
from reconciler.embedded.routing import Request, Response, Stream


class Overheard(ApiServer):
    """Remembers the methods of all requests."""

    def __init__(self) -> None:
        super().__init__()
        self.methods: list[str] = []

    def handle(self, request: Request) -> Response | Stream:
        self.methods.append(request.method)
        return super().handle(request)


@contextmanager
def serving(*options: str) -> Iterator[tuple["subprocess.Popen[str]", str, list[str]]]:
    """The process, its URL, and the lines up to the one for kubectl."""
    command = [sys.executable, "-u", "-m", "reconciler", "apiserver", "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line.strip())
            if line.startswith("kubectl"):
                break
        yield process, next(one.split()[-1] for one in lines if one.startswith("serving on ")), lines
    finally:
        process.kill()
        process.communicate()
