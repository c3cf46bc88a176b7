#!/bin/sh
# aiohttp drops the cancellation of a task that comes together with the total timeout of its request.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" --quiet --disable-pip-version-check install aiohttp==3.14.5
"$folder/env/bin/python" - <<'PYTHON'
import asyncio
import importlib.metadata
import time

import aiohttp

print("aiohttp", importlib.metadata.version("aiohttp"))
SECONDS = 0.5


async def main():
    asked = asyncio.Event()

    async def silent(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await reader.read()
        writer.close()

    async def ask(session, port):
        async with session.get(f"http://127.0.0.1:{port}/"):
            pass

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SECONDS)) as session:
        task = asyncio.create_task(ask(session, server.sockets[0].getsockname()[1]))
        await asked.wait()
        loop = asyncio.get_running_loop()
        loop.call_later(SECONDS, task.cancel)
        time.sleep(1.5 * SECONDS)  # a busy loop: both are due in its next round, the timeout first
        await asyncio.wait([task])
    server.close()
    return task


task = asyncio.run(main())
print("expected: the task is cancelled")
print("seen:    ", "cancelled" if task.cancelled() else repr(task.exception()))
assert not task.cancelled() and isinstance(task.exception(), TimeoutError)
PYTHON
