"""Lets the loop wake the admission check: one unit stands for all Workloads that wait for room."""

import asyncio
from typing import NoReturn

from reconciler.api.objects.meta import ObjectKey
from reconciler.control.decisions.allocating import Waits
from reconciler.control.handler import Ask, Decided, Given, Handler, Idle, Refused
from reconciler.control.intake import Intake
from reconciler.control.units import Kind, Unit
from reconciler.control.waiting import Wants

UNIT = Unit(Kind.WORKLOAD, ObjectKey("", "kueue"))
ANY_ROOM = Wants(frozenset(), room=True, crowded=True, awaits_pods=True, awaits_binding=True)


class KueueWakeUps(Handler[NoReturn, NoReturn, NoReturn]):
    """Serves that unit: whatever wakes it wakes the check, which does the rest beside the loop."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self.woken = asyncio.Event()

    def arm(self, seconds: float) -> None:
        """Wake the check at the next change that may help anybody, at the latest after so many seconds."""
        self._intake.waiting.add(UNIT, ANY_ROOM)
        self._intake.put(UNIT, after=seconds)

    async def resolve(self, unit: Unit) -> None:
        """Nothing is written here."""

    def next(self, unit: Unit) -> Idle | Ask[NoReturn] | None:
        if unit.kind is not Kind.WORKLOAD:
            return None
        self.woken.set()
        return Idle()

    async def decide(self, question: NoReturn) -> Given[NoReturn] | Refused[NoReturn] | None:
        raise AssertionError(question)

    def record(self, name: str, answer: Given[NoReturn] | Refused[NoReturn]) -> None:
        raise AssertionError(name, answer)

    def assume(self, grant: NoReturn) -> None:
        raise AssertionError(grant)

    async def write(self, grant: NoReturn, decided: Decided) -> None:
        raise AssertionError(grant, decided)

    def waits(self, refusal: NoReturn, name: str) -> Waits:
        raise AssertionError(refusal, name)
