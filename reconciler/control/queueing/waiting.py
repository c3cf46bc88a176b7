"""Units that were told no, and which changes are a reason to ask again before their back-off ends."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from reconciler.allocation.koordinator.demand import Demand
from reconciler.control.queueing.units import Unit
from reconciler.state.delta import Delta


@dataclass(frozen=True, slots=True)
class Wants:
    """What a waiting unit could use."""

    classes: frozenset[str]
    """Device classes that its claims name"""
    room: bool
    """Whether a device set free may be enough. Not so where something has to be mended first."""
    crowded: bool = False
    """Whether other pods going may be enough, by what they leave of CPU, memory and the like"""
    demand: Demand | None = None
    """What a pod asks for of Koordinator's devices"""


class Waiting:
    """The units that wait. Errs on the side of waking: a turn too many costs less than a lost one."""

    def __init__(self) -> None:
        self._wants: dict[Unit, Wants] = {}
        self._alike: dict[Hashable, dict[Unit, Demand]] = {}
        """Those who ask for Koordinator's devices, by the shape of their demand"""

    def add(self, unit: Unit, wants: Wants) -> None:
        """Let a unit wait."""
        self.drop(unit)
        self._wants[unit] = wants
        if wants.demand is not None:
            self._alike.setdefault(wants.demand.shape, {})[unit] = wants.demand

    def has(self, unit: Unit) -> bool:
        """Whether a unit waits."""
        return unit in self._wants

    def drop(self, unit: Unit) -> None:
        """The unit does not wait any more."""
        wants = self._wants.pop(unit, None)
        if wants is None or wants.demand is None:
            return
        alike = self._alike[wants.demand.shape]
        del alike[unit]
        if not alike:
            del self._alike[wants.demand.shape]

    def woken_by(self, delta: Delta) -> Iterable[Unit]:
        """The units that should be asked again. They keep waiting until they are dropped."""
        if delta.supply:
            return list(self._wants)
        if not delta.freed and not delta.classes:
            return ()
        return [unit for unit, wants in self._wants.items() if _concerns(delta, wants)]

    def crowded(self) -> Iterable[Unit]:
        """The units that should be asked again when a node has more room. They keep waiting."""
        return [unit for unit, wants in self._wants.items() if wants.crowded]

    def served_by(self, may_serve: Callable[[Demand], bool]) -> list[Unit]:
        """The units that should be asked again as machines are now: one look for each shape of demand."""
        return [
            unit for alike in self._alike.values() if may_serve(next(iter(alike.values()))) for unit in alike
        ]


def _concerns(delta: Delta, wants: Wants) -> bool:
    return (wants.room and bool(delta.freed)) or not delta.classes.isdisjoint(wants.classes)
