"""When a unit that wants room keeps pods from being moved, and when it does not any more."""

import asyncio
from collections.abc import AsyncIterator, Container
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from reconciler.api.objects.core import Pod
from reconciler.control.relocation.candidates import Candidates, RoomPlan
from reconciler.control.relocation.evictor import AGAIN, KnownBudgets, Purpose, Turns
from reconciler.control.relocation.preemptor import PAUSE, Preemptor
from reconciler.control.relocation.relocator import Means, Terms
from reconciler.control.units import Unit
from reconciler.state.nominations import HeldPlace
from tests.tools.unit_pictures import intake, pod_unit

A, B = pod_unit("a"), pod_unit("b")
WHEN_OTHERS_LEAVE = RoomPlan((), (HeldPlace("n"),), awaits=True)


class Pending(Candidates):
    """Some pods that wait for room, of which some need no devices now."""

    def __init__(self) -> None:
        self.pending: tuple[Unit, ...] = ()
        self.needing: Container[Unit] = ()

    def units(self) -> list[Unit]:
        return list(self.pending)

    def need(self, unit: Unit) -> Any:
        return unit if unit in self.needing else None

    def judged(self, unit: Unit) -> list[Pod]:  # noqa: ARG002
        return []

    def sharers(self, unit: Unit) -> list[Pod]:  # noqa: ARG002
        return []


class Making:
    """Room is made while a pod is moved. What is planned always waits for pods that leave by themselves."""

    def __init__(self) -> None:
        self.turns, self.pending = Turns(), Pending()
        self.turns.take(Purpose.REBALANCING)
        budgets, picture = KnownBudgets(), intake()
        budgets.listed = True
        picture.listed.set()
        unused: Any = None
        means = Means(
            picture,
            budgets,
            unused,
            self.turns,
            leads=lambda: True,
            clock=asyncio.get_running_loop().time,
            now=lambda: datetime.now(UTC),
            report=lambda _: None,
        )
        terms = Terms(evict=True, dry_run=False, hold_seconds=1.0, cooldown_seconds=0.0)
        self.preemptor = Preemptor(means, self.pending, unused, lambda *_: WHEN_OTHERS_LEAVE, terms)

    async def kept_from_moving(self, *pending: Unit, needing: Container[Unit]) -> bool:
        """Whether no pod may be moved after these were pending for a while."""
        self.pending.pending, self.pending.needing = pending, needing
        await asyncio.sleep(3 * PAUSE)
        return self.turns.yields(Purpose.REBALANCING)


@asynccontextmanager
async def making() -> AsyncIterator[Making]:
    made = Making()
    task = asyncio.create_task(made.preemptor.run())
    yield made
    task.cancel()
    await asyncio.wait([task])


async def test_who_needs_no_room_any_more_keeps_nobody_from_moving():
    async with making() as room:
        assert await room.kept_from_moving(A, needing={A})
        await asyncio.sleep(AGAIN)
        assert not await room.kept_from_moving(A, needing=())


async def test_who_is_not_pending_any_more_keeps_nobody_from_moving_though_others_back_off():
    async with making() as room:
        assert not await room.kept_from_moving(B, needing=())
        assert await room.kept_from_moving(A, B, needing={A})
        assert not await room.kept_from_moving(B, needing=())


async def test_who_needs_no_room_does_not_give_up_the_turn_that_another_waits_for():
    async with making() as room:
        assert await room.kept_from_moving(A, needing={A})
        assert await room.kept_from_moving(A, B, needing={A})
