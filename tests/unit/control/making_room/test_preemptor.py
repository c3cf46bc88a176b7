"""What a unit that waits for something else than devices means for other plans."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from reconciler.control.evicting.budgets import KnownBudgets
from reconciler.control.evicting.means import Means
from reconciler.control.evicting.turns import Purpose, Turns
from reconciler.control.making_room.candidates import Candidates
from reconciler.control.making_room.preemptor import Preemptor, Terms
from reconciler.control.queueing.units import Unit
from tests.tools.unit_pictures import intake, pod_unit


class WithoutNeed(Candidates):
    """One pod is pending, for a claim that does not exist yet."""

    def __init__(self) -> None:
        pass

    def units(self) -> list[Unit]:
        return [pod_unit("x")]

    def need(self, unit: Unit) -> None:  # noqa: ARG002
        return None


async def test_who_needs_no_room_any_more_keeps_nobody_from_moving():
    """It asked for its turn while a pod was moved, and has lost its claim since."""
    turns, budgets = Turns(), KnownBudgets()
    unused: Any = None
    turns.take(Purpose.REBALANCING)
    turns.take(Purpose.PREEMPTION)
    assert turns.yields(Purpose.REBALANCING)
    budgets.listed = True
    picture = intake()
    picture.listed.set()
    means = Means(
        picture,
        budgets,
        unused,
        turns,
        leads=lambda: True,
        clock=lambda: 0.0,
        now=lambda: datetime.now(UTC),
        report=lambda _: None,
    )
    terms = Terms(evict=True, dry_run=False, hold_seconds=1.0, cooldown_seconds=0.0)
    making = Preemptor(means, WithoutNeed(), unused, unused, terms)
    task = asyncio.create_task(making.run())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    assert not turns.yields(Purpose.REBALANCING)
