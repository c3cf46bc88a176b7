"""The command as a process of its own, or, where it does not even start, in this one."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from reconciler.cli import main
from tests.tools.patience import PATIENCE

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
