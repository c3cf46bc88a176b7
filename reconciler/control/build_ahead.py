"""Builds the next snapshot a few pools at a time, so that other tasks run in between."""

import asyncio
from weakref import WeakKeyDictionary

from reconciler.aio.tasks import short_switch_interval
from reconciler.state.devices.inventory import Assembled, Assembly
from reconciler.state.store import Store

POOLS = 8
"""Pools built without a break: a millisecond each"""

_turns: WeakKeyDictionary[Store, asyncio.Lock] = WeakKeyDictionary()
"""Several tasks need the snapshot of one store at once; the work is done once"""


async def build_ahead(store: Store) -> None:
    """Do most of the work for the next snapshot. A large fleet is joined in a thread.

    Those who call it go on in the order in which they called.
    """
    turn = _turns.get(store)
    async with _turns.setdefault(store, asyncio.Lock()) if turn is None else turn:
        if store.is_current:
            return
        while store.supply.inventory.build_ahead(POOLS):  # noqa: ASYNC110 - only lets other tasks run
            await asyncio.sleep(0)
        assembly = store.supply.assembly()
        if assembly is not None:
            store.adopt(await asyncio.to_thread(_run, assembly))
            del assembly
            # With a million devices this takes tens of milliseconds, as does the snapshot that follows.
            await asyncio.sleep(0)


def _run(assembly: Assembly) -> Assembled:
    with short_switch_interval():
        return assembly.run()
