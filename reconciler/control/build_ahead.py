"""Builds the next snapshot a few pools at a time, so that other tasks run in between."""

import asyncio

from reconciler.state.store import Store

POOLS = 8
"""Pools built without a break: a millisecond each"""


async def build_ahead(store: Store) -> None:
    """Do most of the work for the next snapshot."""
    while store.build_ahead(POOLS):  # noqa: ASYNC110 - only lets other tasks run
        await asyncio.sleep(0)
