"""Units that were told no, and which changes are a reason to ask again before their back-off ends."""

from collections.abc import Iterable
from dataclasses import dataclass

from reconciler.inventory.touched import Touched
from reconciler.reconcile.units import Unit


@dataclass(frozen=True, slots=True)
class Wants:
    """What a waiting unit could use."""

    classes: frozenset[str]
    """Device classes that its claims name"""
    room: bool
    """Whether a device set free may be enough. Not so where something has to be mended first."""
    crowded: bool = False
    """Whether other pods going may be enough, by what they leave of CPU, memory and the like"""


class Waiting:
    """The units that wait. Errs on the side of waking: a turn too many costs less than a lost one."""

    def __init__(self) -> None:
        self._wants: dict[Unit, Wants] = {}

    def add(self, unit: Unit, wants: Wants) -> None:
        """Let a unit wait."""
        self._wants[unit] = wants

    def has(self, unit: Unit) -> bool:
        """Whether a unit waits."""
        return unit in self._wants

    def drop(self, unit: Unit) -> None:
        """The unit does not wait any more."""
        self._wants.pop(unit, None)

    def woken_by(self, touched: Touched) -> Iterable[Unit]:
        """The units that should be asked again. They keep waiting until they are dropped."""
        if touched.supply:
            return list(self._wants)
        if not touched.freed and not touched.classes:
            return ()
        return [unit for unit, wants in self._wants.items() if _concerns(touched, wants)]

    def crowded(self) -> Iterable[Unit]:
        """The units that should be asked again when a node has more room. They keep waiting."""
        return [unit for unit, wants in self._wants.items() if wants.crowded]


def _concerns(touched: Touched, wants: Wants) -> bool:
    return (wants.room and bool(touched.freed)) or not touched.classes.isdisjoint(wants.classes)
