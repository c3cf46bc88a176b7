"""Looks at every change on the server: nothing may be held twice, nothing given that is not there."""

from collections.abc import Callable, Mapping
from typing import Any

from tests.tools.simulation.audit.claims import (
    Hold,
    allocation,
    asks,
    has_finalizer,
    holds,
    is_deleting,
    selected,
)
from tests.tools.simulation.audit.history import Held, History, total
from tests.tools.simulation.audit.pools import Device, Pool, PoolState


class Auditor:
    """Follows claims and slices. What is wrong is kept in `findings`, in words."""

    def __init__(
        self,
        zones: Mapping[str, str],
        classes: Mapping[str, tuple[str, str | None]],
        owned: frozenset[str],
        now: Callable[[], float],
    ) -> None:
        self.history = History(zones, now)
        self.classes = classes
        self.findings: list[str] = []
        self.claims: dict[str, Any] = {}
        self.given_away: set[str] = set()
        """Uids of claims that somebody else allocated"""
        self.cleared: dict[str, frozenset[str]] = {}
        """See `Tampering.cleared`; only while the claims were not allocated again"""
        self.life = 0
        """How often the reconciler was started"""
        self.allocations = 0
        self._owned = owned
        self._now = now
        self._of_claim: dict[str, list[Held]] = {}
        self._of_device: dict[tuple[Pool, str], list[Held]] = {}

    def held(self) -> list[Held]:
        return [held for of_claim in self._of_claim.values() for held in of_claim]

    def slice_changed(self, name: str, slice_: Any | None) -> None:
        self.history.note(name, slice_)

    def claim_changed(self, key: str, claim: Any | None) -> None:
        """A claim is now like this, or gone."""
        before = self.claims.pop(key, None)
        if claim is not None:
            self.claims[key] = claim
        if before is not None and claim is not None and _same(before, claim):
            return
        for held in self._of_claim.pop(key, ()):
            self._of_device[held.hold.pool, held.hold.device].remove(held)
        if claim is None or not allocation(claim):
            return
        self.cleared.pop(claim["metadata"]["uid"], None)
        kept = [Held(key, hold, self._now(), self.life) for hold in holds(claim)]
        others = {
            held.claim for one in kept for held in self._of_device.get((one.hold.pool, one.hold.device), ())
        }
        self._of_claim[key] = kept
        for one in kept:
            self._of_device.setdefault((one.hold.pool, one.hold.device), []).append(one)
        self.allocations += 1
        self._judge(key, claim, kept)
        if (
            before is not None
            and before["metadata"]["uid"] == claim["metadata"]["uid"]
            and allocation(before)
        ):
            self._find(f"claim {key} was allocated again while it was allocated; beside {sorted(others)}")

    def _find(self, what: str) -> None:
        self.findings.append(f"t={self._now():.3f}: {what}")

    def _judge(self, key: str, claim: Any, kept: list[Held]) -> None:
        for one in kept:
            self._alone(one)
        if claim["metadata"]["uid"] in self.given_away:
            return
        foreign = {held.hold.pool[0] for held in kept} - self._owned
        if foreign:
            self._find(f"claim {key} got devices of {foreign}, which are not ours")
        if not has_finalizer(claim):
            self._find(f"claim {key} was allocated without the finalizer")
        if is_deleting(claim):
            self._find(f"claim {key} was allocated while it was being deleted")
        if "allocationTimestamp" not in allocation(claim):
            self._find(f"claim {key} was allocated without a timestamp")
        self._as_asked(key, claim, [held.hold for held in kept])
        nodes = selected(claim, self.history.zones)
        if not nodes:
            self._find(f"claim {key} can be used on no node")
        for pool in {held.hold.pool for held in kept}:
            states = self.history.recent(pool)
            wrongs = [self._wrong(state, pool, kept, claim, nodes) for state in states]
            if all(wrongs):
                self._find(
                    f"claim {key} in pool {pool}: {wrongs[-1]} ({len(states)} states of the pool looked at)"
                )

    def _alone(self, one: Held) -> None:
        there = self._of_device[one.hold.pool, one.hold.device]
        if len(there) > 1 and not all(held.hold.share for held in there):
            where = f"{'/'.join(one.hold.pool)}/{one.hold.device}"
            self._find(f"device {where} is held twice: {sorted(held.claim for held in there)}")

    def _as_asked(self, key: str, claim: Any, kept: list[Hold]) -> None:
        """Every request has one of its alternatives, in the number that it asks for."""
        left = list(kept)
        for ways in asks(claim):
            chosen = [(wish, [hold for hold in left if hold.request == name]) for name, wish in ways]
            chosen = [(wish, found) for wish, found in chosen if found]
            if len(chosen) != 1 or len(chosen[0][1]) != chosen[0][0].get("count", 1):
                self._find(f"claim {key}: {kept} is not what {ways} ask for")
                return
            left = [hold for hold in left if hold not in chosen[0][1]]
        if left:
            self._find(f"claim {key}: nobody asked for {left}")

    def _wrong(
        self, state: PoolState, pool: Pool, kept: list[Held], claim: Any, nodes: frozenset[str]
    ) -> str | None:
        """What is wrong with an allocation if a pool was in this state when it was decided."""
        wishes = {name: wish for ways in asks(claim) for name, wish in ways}
        for held in kept:
            if held.hold.pool != pool:
                continue
            device = state.devices.get(held.hold.device)
            if device is None:
                return f"device {held.hold.device} does not exist"
            if not nodes <= device.nodes:
                return f"device {held.hold.device} is not on {sorted(nodes - device.nodes)}"
            driver, profile = self.classes[wishes[held.hold.request]["deviceClassName"]]
            if driver != pool[0] or (profile is not None and profile != device.profile):
                return f"device {held.hold.device} is of another class than {wishes[held.hold.request]}"
            if (device.capacity is not None) != bool(held.hold.share):
                return f"device {held.hold.device} is shared or not, but the allocation says otherwise"
            if (over := self._capacity(device, held)) is not None:
                return over
        return self._counters(state, pool, kept)

    def _capacity(self, device: Device, held: Held) -> str | None:
        if device.capacity is None:
            return None
        there = self._of_device[held.hold.pool, held.hold.device]
        for name, published in device.capacity.items():
            consumed = sum((one.hold.consumed.get(name, 0) for one in there), 0)
            if consumed > published:
                return f"{consumed} of {published} {name} of device {held.hold.device} are given out"
        return None

    def _counters(self, state: PoolState, pool: Pool, kept: list[Held]) -> str | None:
        """Counters below zero, if any of the new devices draws from the pool's counters at all."""
        if not any(state.draws(held.hold.device) for held in kept if held.hold.pool == pool):
            return None
        new = {id(held) for held in kept}
        drawn: dict[str, Any] = {}
        for (where, device), there in self._of_device.items():
            if where == pool and there:
                fresh = any(id(held) in new for held in there)
                drawn[device] = state.draws(device) if fresh else self.history.least(there[0], self.life)
        for name, much in total(iter(drawn.values())).items():
            if name in state.totals and much > state.totals[name]:
                return f"counter {name}: {much} of {state.totals[name]} are drawn by {sorted(drawn)}"
        return None


def _same(before: Any, claim: Any) -> bool:
    """Whether a claim holds the same as before."""
    return before["metadata"]["uid"] == claim["metadata"]["uid"] and allocation(before) == allocation(claim)
