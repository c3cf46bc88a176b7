"""Every kubectl on this machine, by its minor version."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from reconciler.embedded import ApiServer, run_controllers, serve
from tests.tools.patience import PATIENCE

OLDEST = 30
"""The first release that docs/embedded-server.md promises"""
OWN = Path(sys.prefix) / "kubectl"
"""Where `python -m tests.tools.fetch_kubectl` puts them"""
MISSING = "kubectl 1.30 or later is not installed; python -m tests.tools.fetch_kubectl fetches some"
_NAME = re.compile(r"kubectl\.1\.(?P<minor>\d+)")


@cache
def kubectls() -> Mapping[int, Path]:
    """Minor version -> program, oldest first. Their names are kubectl or, for a release, kubectl.1.30."""
    found: dict[int, Path] = {}
    for folder in _folders():
        for path in sorted(folder.glob("kubectl.1.*")):
            if match := _NAME.fullmatch(path.name):
                found.setdefault(int(match["minor"]), path)
    # The plain program is asked for its version only if it is the only one: it may choose another one itself.
    if not found and (plain := shutil.which("kubectl")):
        found[_minor(plain)] = Path(plain)
    return {minor: found[minor] for minor in sorted(found) if minor >= OLDEST}


def _folders() -> Iterator[Path]:
    yield OWN
    for name in os.get_exec_path():
        yield Path(name)
        # Some packages install several releases beside the program that PATH leads to.
        yield (Path(name) / "kubectl").resolve().parent


def _minor(program: str) -> int:
    command = [program, "version", "--client", "-o", "json"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE)
    return int(json.loads(done.stdout)["clientVersion"]["minor"].rstrip("+"))


# -- A kubectl that talks to an embedded server of its own.


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
