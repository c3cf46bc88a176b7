"""Looks up what a unit stands for: its claims, the others that decide about them, its place in the queue."""

from collections.abc import Iterable

from reconciler.allocation.placement import Place, place
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import GangKey
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.pods import claims_of
from reconciler.control.gangs.roster import GangRoster
from reconciler.control.queueing.units import Kind, Roster, Unit, gang_unit
from reconciler.state.store import Store

_GONE: Place = (0, "", "", "", "")
"""The place of a deleted unit: first, since its last reconcile is short and only cleans up."""


class UnitLookup:
    """Reads the state. Changes nothing."""

    def __init__(self, store: Store, roster: Roster, gangs: GangRoster) -> None:
        self._store = store
        self._roster = roster
        self._gangs = gangs

    def place(self, unit: Unit) -> Place:
        """The place of a unit in the queue."""
        if unit.kind is Kind.GANG:
            return min(map(place, self.gated(unit.gang)), default=_GONE)
        things = self._store.pods if unit.kind is Kind.POD else self._store.claims
        thing = things.get(unit.key)
        return place(thing) if thing is not None else _GONE

    def claims(self, unit: Unit) -> tuple[ObjectKey, ...]:
        """The claims that a unit decides about, as far as known."""
        if unit.kind is Kind.CLAIM:
            return (unit.key,)
        if unit.kind is Kind.GANG:
            return tuple(dict.fromkeys(key for pod in self.gated(unit.gang) for key in claims_of(pod)))
        pod = self._store.pods.get(unit.key)
        return claims_of(pod) if pod is not None else ()

    def gated(self, gang: GangKey) -> list[Pod]:
        """The gated pods of a gang."""
        # A listing may have dropped several of them, of which the roster learns one by one.
        pods = (self._store.pods.get(key) for key in self._gangs.members(gang))
        return [pod for pod in pods if pod is not None and pod.gated]

    def decides(self, unit: Unit, key: ObjectKey) -> bool:
        """Whether a unit still decides about a claim."""
        if unit.kind is Kind.GANG:
            return any(gang_unit(gang) == unit for gang in self._gangs.of(self._roster.users(key)))
        return unit.key == key if unit.kind is Kind.CLAIM else unit.key in self._roster.users(key)

    def sharing(self, unit: Unit, before: Iterable[ObjectKey]) -> list[Unit]:
        """The other units that decide about one of its claims.

        `before` are the claims that it had when its reconcile began: its pod may be gone.
        """
        keys = {*before, *self.claims(unit)}
        found = {other for key in keys for other in self._roster.units(key)}
        found |= {gang_unit(gang) for key in keys for gang in self._gangs.of(self._roster.users(key))}
        return sorted(found - {unit})
