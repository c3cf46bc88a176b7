"""The whole demonstration: server, fleet and reconciler, until nothing changes any more."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import random
from typing import Any, BinaryIO

from reconciler import app
from reconciler.aio.tasks import forever
from reconciler.api.manifests.documents import Refusal, documents
from reconciler.cli.common.console import Console
from reconciler.cli.common.output import print_line
from reconciler.cli.demo.display import display, print_conclusion
from reconciler.cli.demo.state import KINDS, DemoState
from reconciler.cluster.client import Client
from reconciler.cluster.discovery import discover
from reconciler.cluster.http import connect
from reconciler.cluster.watch import follow
from reconciler.embedded import ApiServer, run_controllers, serve
from reconciler.errors import Malformed, Retry
from reconciler.settings import Settings

MANIFESTS = Path(__file__).parent / "manifests"
QUIET_SECONDS = 0.5
"""The demonstration ends after this time without a change; freed devices are allocated again at once."""
MAX_SECONDS = 45.0
"""The demonstration fails if it has not settled after this time."""


def manifests(stdin: BinaryIO) -> list[dict[str, Any]]:
    """Read the sample fleet and claims."""
    raws = []
    for document in documents([str(MANIFESTS)], stdin):
        if isinstance(document, Refusal):
            raise Malformed(str(MANIFESTS), "", str(document.problem))
        raws.append(dict(document.raw))
    return raws


async def play(raws: Sequence[dict[str, Any]], console: Console) -> None:
    """Run the reconciler on these objects. Raises Retry if they do not settle."""
    api = ApiServer()
    api.load(raws)
    async with run_controllers(api), serve(api) as url, connect(server=url) as transport:
        kinds = Counter(raw["kind"] for raw in raws)
        devices = sum(len(raw["spec"].get("devices", ())) for raw in raws if raw["kind"] == "ResourceSlice")
        print_line(
            console,
            f"embedded API server on {url}: {kinds['Node']} nodes, {kinds['ResourceSlice']} slices with "
            f"{devices} devices, {kinds['ResourceClaim']} claims, {kinds['Pod']} pods",
        )
        state, stop = DemoState(), asyncio.Event()
        client = Client(transport)
        served = await discover(client)
        async with asyncio.TaskGroup() as group:
            group.create_task(
                app.run(Settings(embedded=True), transport, stop=stop, on_decision=state.on_decision),
                name="reconciler",
            )

            async def watch(kind: str) -> None:
                await forever(kind, follow(client, served[kind], sink=state.on_change, random=random))

            watches = [group.create_task(watch(kind), name=f"watch {kind}") for kind in KINDS]
            await _until_settled(state, console)
            stop.set()
            for task in watches:
                task.cancel()
        print_conclusion(state, console)


async def _until_settled(state: DemoState, console: Console) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + MAX_SECONDS
    with display(console) as screen:
        while loop.time() < end:
            state.changed.clear()
            try:
                async with asyncio.timeout(QUIET_SECONDS if state.settled else end - loop.time()):
                    await state.changed.wait()
            except TimeoutError:
                if state.settled:
                    return
            screen.show(state)
    raise Retry(f"the demonstration has not settled after {MAX_SECONDS:.0f} s")
