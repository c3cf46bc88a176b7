"""The command as a process of its own."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

QUIET = {name: value for name, value in os.environ.items() if not name.startswith("DRA_RECONCILER_")}


async def start(*arguments: str, **environment: str) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "reconciler", *arguments, stdout=PIPE, stderr=PIPE, env={**QUIET, **environment}
    )


async def finished(process: Process) -> tuple[int | None, str, str]:
    async with asyncio.timeout(30):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


def written(path: Path, *objects: dict[str, Any]) -> str:
    path.write_text("\n---\n".join(map(json.dumps, objects)))
    return str(path)
