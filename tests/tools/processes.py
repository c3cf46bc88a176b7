"""The command as a process of its own, or, where it does not even start, in this one."""

import asyncio
import json
import os
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import yaml
from click.testing import CliRunner, Result

from reconciler.cli import main
from reconciler.embedded import ApiServer, serve
from reconciler.embedded.routing import Request, Response, Stream
from tests.tools.patience import PATIENCE
from tests.tools.short_manifests import together

QUIET = {name: value for name, value in os.environ.items() if not name.startswith("DRA_RECONCILER_")}


async def start(*arguments: str, **environment: str) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "reconciler", *arguments, stdout=PIPE, stderr=PIPE, env={**QUIET, **environment}
    )


async def finished(process: Process) -> tuple[int | None, str, str]:
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


def written(path: Path, *objects: dict[str, Any]) -> str:
    path.write_text("\n---\n".join(map(json.dumps, objects)))
    return str(path)


def assert_refused(
    arguments: tuple[str, ...], environment: Mapping[str, str], code: int, message: str
) -> None:
    """The command ends at once and says why. It runs in this process: to start one is most of the work."""
    unset = {name: None for name in os.environ if name.startswith("DRA_RECONCILER_")}
    result = CliRunner().invoke(main, arguments, env={**unset, **environment})
    assert result.exit_code == code
    assert isinstance(result.exception, SystemExit)
    assert message in result.stderr


async def answered(api: ApiServer, *arguments: str, command: click.Command = main, **options: Any) -> Result:
    """What a command says of the cluster of a server."""
    async with serve(api) as url:
        asked = [*arguments, "--server", url]
        return await asyncio.to_thread(CliRunner().invoke, command, asked, **options)


# -- API servers for commands: one that notes the methods of requests, and one in a process of its own.


class Overheard(ApiServer):
    """Remembers the methods of all requests."""

    def __init__(self) -> None:
        super().__init__()
        self.methods: list[str] = []

    def handle(self, request: Request) -> Response | Stream:
        self.methods.append(request.method)
        return super().handle(request)


def served(*manifests: str) -> ApiServer:
    """A server with these objects, in the default namespace unless they say otherwise."""
    api = ApiServer()
    for raw in yaml.safe_load_all(together(*manifests)):
        namespaced = raw["kind"] in ("ResourceClaim", "Pod")
        metadata = {"namespace": "default", **raw["metadata"]} if namespaced else raw["metadata"]
        api.load([{**raw, "metadata": metadata}])
    return api


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
