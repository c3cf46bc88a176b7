"""Holds refusals until they have lasted. Most end by themselves, after a write or a controller's turn."""

import asyncio
import heapq
from collections.abc import Callable

from msgspec import Struct

from reconciler.control.decisions.allocating import Waits
from reconciler.control.units import Kind, Unit
from reconciler.control.waiting import Pending

RECHECK_SECONDS = 1.0
"""Minimum time until a unit is checked again whose claims are being written"""


class _Held(Struct):
    """The newest refusal of a unit."""

    unit: Unit
    waits: Waits
    spell: int


class LastingRefusals:
    """Passes on the newest refusal of each unit that has been pending for some seconds without interruption.

    The time counts from the first refusal, whatever its reason. So a unit whose reason keeps changing is
    reported as well.
    """

    def __init__(self, pending: Pending, *, seconds: float, clock: Callable[[], float]) -> None:
        """`seconds` is how long a unit must be pending; `clock` counts seconds."""
        self._pending = pending
        self._seconds = seconds
        self._clock = clock
        self._held: dict[Unit, _Held] = {}
        self._due: list[tuple[float, int, _Held]] = []
        self._added = asyncio.Event()
        self._entries = 0

    def add(self, waits: Waits) -> None:
        """Hold a refusal back. Cheap, and never blocks."""
        if waits.pod is None and not waits.claims:
            return
        unit = Unit(Kind.POD, waits.pod) if waits.pod is not None else Unit(Kind.CLAIM, waits.claims[0])
        spell, held = self._pending.spell(unit), self._held.get(unit)
        if held is not None and held.spell == spell:
            held.waits = waits
            return
        self._held[unit] = held = _Held(unit, waits, spell)
        self._schedule(held, self._seconds)
        self._added.set()

    async def run(self, in_flight: Callable[[Waits], bool], pass_on: Callable[[Waits], None]) -> None:
        """Pass on refusals until cancelled. `in_flight` tells whether a claim of one is being written."""
        while True:
            self._added.clear()
            while self._due and self._due[0][0] <= self._clock():
                self._take(heapq.heappop(self._due)[2], in_flight, pass_on)
            try:
                async with asyncio.timeout(self._due[0][0] - self._clock() if self._due else None):
                    await self._added.wait()
            except TimeoutError:
                continue

    def _take(
        self, held: _Held, in_flight: Callable[[Waits], bool], pass_on: Callable[[Waits], None]
    ) -> None:
        if self._held.get(held.unit) is not held:
            return  # it was not pending in between, and is held back anew
        if self._pending.spell(held.unit) == held.spell and in_flight(held.waits):
            self._schedule(held, max(self._seconds, RECHECK_SECONDS))
            return
        del self._held[held.unit]
        if self._pending.spell(held.unit) == held.spell:
            pass_on(held.waits)

    def _schedule(self, held: _Held, seconds: float) -> None:
        self._entries += 1
        heapq.heappush(self._due, (self._clock() + seconds, self._entries, held))
