"""The picture, built a few pools at a time where many have changed: others have their turns in between."""

import asyncio

from reconciler.state.store import Store

POOLS = 8
"""Pools that are built at one go: a millisecond each"""


async def build_ahead(store: Store) -> None:
    """Do most of what the next picture takes."""
    while store.build_ahead(POOLS):  # noqa: ASYNC110 - there is nothing to wait for, but others to let pass
        await asyncio.sleep(0)
