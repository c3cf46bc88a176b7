"""Pending units, and which changes wake them before their back-off ends."""

from collections.abc import Callable, Hashable, Iterable

from msgspec import Struct

from reconciler.allocation.koordinator.demand import Demand
from reconciler.control.queueing.units import Unit
from reconciler.state.delta import Delta


class Wants(Struct, frozen=True):
    """Which changes wake a unit."""

    classes: frozenset[str]
    """Device classes that its claims name"""
    room: bool
    """Whether a freed device may be enough. False if an object must be fixed first."""
    crowded: bool = False
    """Whether pods that leave may be enough, by the CPU, memory and so on that they free"""
    awaits_pods: bool = False
    """Whether pods that arrive may be enough, by affinity or spread"""
    awaits_binding: bool = False
    """Whether it is enough that kube-scheduler binds pods"""
    demand: Demand | None = None
    """What a pod requests of Koordinator's devices"""


AWAITS_OTHERS = Wants(frozenset(), room=False, crowded=True, awaits_pods=True, awaits_binding=True)
"""Of a unit with its devices, whose pods wait for other pods"""


class Waiting:
    """The waiting units. Wakes rather too many: an extra reconcile costs less than a missed one."""

    def __init__(self) -> None:
        self._wants: dict[Unit, Wants] = {}
        self._alike: dict[Hashable, dict[Unit, Demand]] = {}
        """Units that request Koordinator's devices, by the shape of their demand"""

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
        """The unit no longer waits."""
        wants = self._wants.pop(unit, None)
        if wants is None or wants.demand is None:
            return
        alike = self._alike[wants.demand.shape]
        del alike[unit]
        if not alike:
            del self._alike[wants.demand.shape]

    def woken_by(self, delta: Delta) -> Iterable[Unit]:
        """The units to reconcile again. They keep waiting until dropped."""
        if delta.supply:
            return list(self._wants)
        if not delta.freed and not delta.classes:
            return ()
        return [unit for unit, wants in self._wants.items() if _concerns(delta, wants)]

    def crowded(self) -> Iterable[Unit]:
        """The units to reconcile again when a node has more room. They keep waiting."""
        return [unit for unit, wants in self._wants.items() if wants.crowded]

    def awaiting_pods(self) -> Iterable[Unit]:
        """The units to reconcile again when pods arrive that affinity or spread counts. They keep waiting."""
        return [unit for unit, wants in self._wants.items() if wants.awaits_pods]

    def awaiting_binding(self) -> Iterable[Unit]:
        """The units to reconcile again when a pod is bound to its decided node, or gone."""
        return [unit for unit, wants in self._wants.items() if wants.awaits_binding]

    def served_by(self, may_serve: Callable[[Demand], bool]) -> list[Unit]:
        """The units that machines may serve now, with one check for each shape of demand."""
        return [
            unit for alike in self._alike.values() if may_serve(next(iter(alike.values()))) for unit in alike
        ]


def _concerns(delta: Delta, wants: Wants) -> bool:
    return (wants.room and bool(delta.freed)) or not delta.classes.isdisjoint(wants.classes)
