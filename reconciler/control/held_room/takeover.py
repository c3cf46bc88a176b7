"""A new leader holds the room that its predecessor held, before its first decision.

A record can only keep devices from others until a deadline: nothing is allocated by it. So one that cannot be
read costs no more than the room.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime

import structlog
from msgspec.structs import replace

from reconciler.control.held_room.record import read_held_room, still_held
from reconciler.control.intake import Intake
from reconciler.control.kept_config_map import KeptConfigMap
from reconciler.errors import Malformed, Retry
from reconciler.state.nominations.nomination import Nomination

log = structlog.get_logger()

PATIENCE, PAUSE = 5.0, 0.5
"""Seconds for which the record is tried to read, and between two tries"""


class HeldRoomTakeover:
    """Reads the record once for each time when this process begins to lead."""

    def __init__(
        self,
        intake: Intake,
        kept: KeptConfigMap,
        *,
        most_seconds: float,
        clock: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        """Nothing is held for more than `most_seconds`, whatever the record says. `clock` is that of the
        loop; `now` the time of day.
        """
        self._intake, self._kept = intake, kept
        self._most_seconds, self._clock, self._now = most_seconds, clock, now

    async def take_over(self) -> None:
        """Hold what the record says, and nothing that an earlier term of this process has left."""
        nominations = await self._read()
        if nominations is None:
            return
        nominating, now = self._intake.nominating, self._clock()
        held = {
            one.nominee: replace(one, until=now + min(seconds, self._most_seconds))
            for one, seconds in still_held(nominations, self._now())
        }
        for one in self._intake.store.nominations:
            if one.nominee not in held:
                nominating.drop(one.nominee, "the leader in between did not hold it")
        taken = [one for one in held.values() if nominating.restore(one, "the previous leader held it")]
        if taken:
            log.info("held room taken over", nominees=[str(one.nominee) for one in taken])

    async def _read(self) -> tuple[Nomination, ...] | None:
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    try:
                        data = await self._kept.read()
                        break
                    except Retry as exc:
                        await asyncio.sleep(max(PAUSE, exc.after))
            found = None if data is None else read_held_room(data, f"ConfigMap {self._kept.key}")
        except (TimeoutError, Malformed) as exc:
            why = "no answer of the server" if isinstance(exc, TimeoutError) else str(exc)
            log.warning("held room not taken over", config_map=str(self._kept.key), error=why)
            return None
        for problem in () if found is None else found.refused:
            log.warning("held room not taken over", config_map=str(self._kept.key), error=str(problem))
        return None if found is None else found.nominations
