"""Writes down which room is held, whenever that changes. Decisions never wait for it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from reconciler.control.held_room.record import HELD_ROOM
from reconciler.control.kept_config_map import KeptConfigMap
from reconciler.control.nominating import Nominating
from reconciler.state.nominations.record import text_of
from reconciler.state.nominations.table import Nominations

PAUSE = 0.1
"""Seconds between two writes, at least: room for many Workloads may be held at once"""
RETRY = 5.0
"""Seconds after which a write that failed is tried again"""
PATIENCE = 5.0
"""Seconds for which others wait until something is written, at most"""


class HeldRoomKeeper:
    """The record follows the state. It is empty once nothing is held."""

    def __init__(
        self,
        nominations: Nominations,
        nominating: Nominating,
        kept: KeptConfigMap,
        *,
        writes: Callable[[], bool],
    ) -> None:
        """`writes` says whether this process may write now: only the leader may."""
        self._nominations = nominations
        self._news = nominating.news
        self._kept = kept
        self._writes = writes
        self._written = nominations.serial
        """The changes that the record has"""
        self._failures = 0
        self._tried = asyncio.Event()
        """Set at the end of a write, and replaced"""

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            self._news.clear()
            if self._behind and self._writes():
                await self._write()
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY if self._behind else None):
                    await self._news.wait()
            await asyncio.sleep(PAUSE)

    async def written(self) -> None:
        """Wait until what is held now is written. A failed write is not waited for, nor a long one.

        After that a next leader holds the room, too.
        """
        failures = self._failures
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while self._behind and self._failures == failures:
                    await self._tried.wait()

    @property
    def _behind(self) -> bool:
        return self._nominations.serial != self._written

    async def _write(self) -> None:
        serial = self._nominations.serial
        if await self._kept.write({HELD_ROOM: text_of(self._nominations)}):
            self._written = serial
        else:
            self._failures += 1
        self._tried.set()
        self._tried = asyncio.Event()
