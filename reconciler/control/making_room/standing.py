"""The latest plan for each pending unit that may preempt, for people."""

from collections.abc import Collection
from typing import NamedTuple

from reconciler.control.making_room.plan import RoomPlan
from reconciler.control.units import Unit

MOST = 1000
"""Units whose plans are kept"""


class Line(NamedTuple):
    """The plan for one unit."""

    unit: Unit
    plan: RoomPlan


class Standing:
    """Plans that were made, the most recent last."""

    def __init__(self) -> None:
        self._plans: dict[Unit, RoomPlan] = {}

    @property
    def lines(self) -> tuple[Line, ...]:
        """The plans that say how room can be made."""
        return tuple(Line(unit, plan) for unit, plan in self._plans.items() if plan.victims)

    def counts(self) -> dict[str, float]:
        """Result -> pending units: `possible`, `advice_only` if nobody but a person may act, `none`."""
        found = {"possible": 0.0, "advice_only": 0.0, "none": 0.0}
        for plan in self._plans.values():
            found["none" if not plan.victims else "advice_only" if plan.advice else "possible"] += 1
        return found

    def note(self, unit: Unit, plan: RoomPlan) -> bool:
        """Keep a plan. Returns whether it differs from the one before."""
        before = self._plans.pop(unit, None)
        self._plans[unit] = plan
        while len(self._plans) > MOST:
            del self._plans[next(iter(self._plans))]
        return before != plan

    def keep(self, units: Collection[Unit]) -> None:
        """Forget units that are not pending any more."""
        known = set(units)
        self._plans = {unit: plan for unit, plan in self._plans.items() if unit in known}
