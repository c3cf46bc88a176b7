"""Watches for commands that show a cluster live. Importing this is slow: import it late."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from random import random

from reconciler.api.objects.changes import Change, Listed, Notice, Replaced
from reconciler.cluster.client import Client
from reconciler.cluster.cursor import Decode
from reconciler.cluster.kinds import Served
from reconciler.cluster.watch import follow


@asynccontextmanager
async def following(
    client: Client, served: Served, decoders: Mapping[str, Decode], on_change: Callable[[Change], object]
) -> AsyncIterator[None]:
    """Watch the kinds that have decoders and call `on_change`; the block starts when all are listed."""
    unlisted, listed = set(decoders), asyncio.Event()

    def receive(change: Notice) -> None:
        if not isinstance(change, Listed):
            on_change(change)
        if isinstance(change, Replaced | Listed):
            unlisted.discard(change.kind)
            if not unlisted:
                listed.set()

    async with asyncio.TaskGroup() as group:
        watches = [
            group.create_task(
                follow(client, served[kind], sink=receive, random=random, decode=decode), name=f"watch {kind}"
            )
            for kind, decode in decoders.items()
        ]
        await listed.wait()
        try:
            yield
        finally:
            for watch in watches:
                watch.cancel()
