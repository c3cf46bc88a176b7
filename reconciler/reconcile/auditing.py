"""What is wrong with what is held, whoever is to blame: looked for all the time, told once.

The API does not prevent it: another allocator, or a reconciler that was cut off from the cluster, can
give a device twice at any time. `races` says what is undone; of the rest somebody has to take care.
"""

import asyncio
from collections.abc import Iterable

from reconciler.inventory.overcommitted import Overcommitments
from reconciler.inventory.store import Store
from reconciler.objects.meta import DeviceID, ObjectKey
from reconciler.reconcile.decisions import CommitmentMet, HeldTwice, OverCommitted, Tell, Uncharged
from reconciler.reconcile.oddities import Oddities
from reconciler.reconcile.races import is_raced


class Audit:
    """Looks at every device whose holders changed, and tells of each double one once."""

    def __init__(self, store: Store, tell: Tell) -> None:
        self._store = store
        self._tell = tell
        self._told: dict[DeviceID, frozenset[ObjectKey]] = {}

    @property
    def doubles(self) -> int:
        """Devices that are held twice, as far as they were looked at."""
        return len(self._told)

    def beside(self, claims: Iterable[ObjectKey]) -> set[ObjectKey]:
        """The claims that hold a device together with one of these, these included."""
        if not self._told:
            return set()
        changed = set(claims)
        return {key for found in self._told.values() if found & changed for key in found}

    def look(self, devices: Iterable[DeviceID]) -> set[ObjectKey]:
        """Check devices as they are held now. Returns the claims that hold one of them twice."""
        found: set[ObjectKey] = set()
        for device in devices:
            holders = self._store.holders(device)
            if len(holders) > 1 and is_raced(device, self._store):
                claims = frozenset(holder.claim for holder in holders)
                found |= claims
                if self._told.get(device) != claims:
                    self._told[device] = claims
                    self._tell(HeldTwice(device, tuple(sorted(claims))))
            elif self._told:
                self._told.pop(device, None)
        return found


class Auditor:
    """Looks at the whole picture once it changed, also while nothing has to be decided."""

    def __init__(self, changed: asyncio.Event, store: Store, tell: Tell, seconds: float) -> None:
        """`seconds` is the least time between two looks: changes come in bursts."""
        self._changed = changed
        self._store = store
        self._tell = tell
        self._seconds = seconds
        self._oddities = Oddities(tell)
        self._over = Overcommitments()
        self._lost: set[tuple[DeviceID, str, tuple[str, ...]]] = set()

    async def run(self) -> None:
        """Look after every change, for ever."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            self.look()
            await asyncio.sleep(self._seconds)

    def look(self) -> None:
        """Tell what is found that was not told before."""
        world = self._store.snapshot()
        self._oddities.look(world)
        found, ended = self._over.follow(world)
        for one in found:
            self._tell(OverCommitted(one.key.pool, one.key.counter_set, one.short, one.claims))
        for key in ended:
            self._tell(CommitmentMet(key.pool, key.counter_set))
        lost = {
            (DeviceID(*pool, gone.device), gone.counter_set, gone.counters)
            for pool, excess in world.occupancy.excess.items()
            for gone in excess.lost
        }
        for device, counter_set, counters in sorted(lost - self._lost):
            claims = tuple(sorted(world.occupancy.claims_of(device)))
            self._tell(Uncharged(device, counter_set, counters, claims))
        self._lost = lost
