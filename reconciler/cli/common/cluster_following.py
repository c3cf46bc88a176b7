"""A cluster followed by a command that shows it as it is. Importing this is slow: import it late."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from random import random

from reconciler.api.objects.changes import Change, Replaced
from reconciler.cluster.client import Client
from reconciler.cluster.cursor import Decode
from reconciler.cluster.kinds import Served
from reconciler.cluster.watch import follow


@asynccontextmanager
async def following(
    client: Client, served: Served, decoders: Mapping[str, Decode], take: Callable[[Change], object]
) -> AsyncIterator[None]:
    """Tell `take` about the kinds that have decoders; the block begins once all of them were listed."""
    missing, whole = set(decoders), asyncio.Event()

    def hear(change: Change) -> None:
        take(change)
        if isinstance(change, Replaced):
            missing.discard(change.kind)
            if not missing:
                whole.set()

    async with asyncio.TaskGroup() as group:
        watches = [
            group.create_task(
                follow(client, served[kind], sink=hear, random=random, decode=decode), name=f"watch {kind}"
            )
            for kind, decode in decoders.items()
        ]
        await whole.wait()
        try:
            yield
        finally:
            for watch in watches:
                watch.cancel()
