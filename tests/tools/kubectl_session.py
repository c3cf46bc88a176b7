"""A kubectl that talks to an embedded server of its own."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from reconciler.embedded import ApiServer, run_controllers, serve
from tests.tools.patience import PATIENCE


@dataclass(frozen=True)
class Kubectl:
    """One kubectl, one server, one folder."""

    program: Path
    url: str
    folder: Path
    api: ApiServer

    async def _start(self, *arguments: str) -> asyncio.subprocess.Process:
        environment = {**os.environ, "HOME": str(self.folder), "KUBECONFIG": "/dev/null", "EDITOR": "true"}
        return await asyncio.create_subprocess_exec(
            self.program,
            f"--server={self.url}",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            cwd=self.folder,
        )

    async def until(self, word: str, *arguments: str) -> None:
        """Wait until a command that goes on has said a word; then end it."""
        process = await self._start(*arguments)
        assert process.stdout is not None
        said = b""
        async with asyncio.timeout(PATIENCE):
            while word.encode() not in said:
                said += (piece := await process.stdout.read(4096))
                assert piece, said.decode()
        process.kill()
        await process.communicate()

    async def end(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        """Exit code, output and errors of a command."""
        process = await self._start(*arguments)
        async with asyncio.timeout(PATIENCE):
            out, err = await process.communicate(stdin.encode())
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()

    async def run(self, *arguments: str, stdin: str = "") -> str:
        """The output of a command that must succeed."""
        code, out, err = await self.end(*arguments, stdin=stdin)
        assert code == 0, f"kubectl {' '.join(arguments)}: {err}"
        return out


@asynccontextmanager
async def session(program: Path, folder: Path) -> AsyncIterator[Kubectl]:
    """A server with controllers, and a kubectl for it."""
    api = ApiServer()
    async with run_controllers(api), serve(api) as url:
        yield Kubectl(program, url, folder, api)
