"""The demonstration from curtain to curtain: server, fleet, reconciler, until nothing changes any more."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import random
from typing import Any, BinaryIO

from rich.console import Console

from reconciler import app
from reconciler.aio.tasks import forever
from reconciler.api.manifests.documents import Refusal, documents
from reconciler.cli.demo.board import KINDS, Board
from reconciler.cli.demo.display import conclusion, display
from reconciler.cluster.client import Client
from reconciler.cluster.discovery import discover
from reconciler.cluster.http import connect
from reconciler.cluster.watch import follow
from reconciler.embedded import ApiServer, run_controllers, serve
from reconciler.errors import Malformed, Retry
from reconciler.settings import Settings

MANIFESTS = Path(__file__).parent / "manifests"
QUIET_SECONDS = 0.5
"""So long must nothing change before the show is over: a device set free is given on at once."""
LONGEST_SECONDS = 45.0
"""So long may nothing be settled before the show has failed."""


def manifests(stdin: BinaryIO) -> list[dict[str, Any]]:
    """The fleet and the claims, as they are shipped."""
    raws = []
    for document in documents([str(MANIFESTS)], stdin):
        if isinstance(document, Refusal):
            raise Malformed(str(MANIFESTS), "", str(document.problem))
        raws.append(dict(document.raw))
    return raws


async def play(raws: Sequence[dict[str, Any]], console: Console) -> None:
    """Show the reconciler at work on these objects. Raises Retry if they do not settle."""
    api = ApiServer()
    api.load(raws)
    async with run_controllers(api), serve(api) as url, connect(server=url) as transport:
        kinds = Counter(raw["kind"] for raw in raws)
        devices = sum(len(raw["spec"].get("devices", ())) for raw in raws if raw["kind"] == "ResourceSlice")
        console.print(
            f"embedded API server on {url}: {kinds['Node']} nodes, {kinds['ResourceSlice']} slices with "
            f"{devices} devices, {kinds['ResourceClaim']} claims, {kinds['Pod']} pods",
            soft_wrap=True,
            highlight=False,
        )
        board, stop = Board(), asyncio.Event()
        client = Client(transport)
        served = await discover(client)
        async with asyncio.TaskGroup() as group:
            group.create_task(
                app.run(Settings(embedded=True), transport, stop=stop, on_decision=board.on_decision),
                name="reconciler",
            )

            async def watch(kind: str) -> None:
                await forever(kind, follow(client, served[kind], sink=board.take, random=random))

            watches = [group.create_task(watch(kind), name=f"watch {kind}") for kind in KINDS]
            await _until_settled(board, console)
            stop.set()
            for task in watches:
                task.cancel()
        for line in conclusion(board, console):
            console.print(line, soft_wrap=True)


async def _until_settled(board: Board, console: Console) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + LONGEST_SECONDS
    with display(console) as screen:
        while loop.time() < end:
            board.news.clear()
            try:
                async with asyncio.timeout(QUIET_SECONDS if board.settled else end - loop.time()):
                    await board.news.wait()
            except TimeoutError:
                if board.settled:
                    return
            screen.show(board)
    raise Retry(f"not settled after {LONGEST_SECONDS:.0f} s")
