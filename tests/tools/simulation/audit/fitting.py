"""Whether devices could be found for claims, by trying everything."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from tests.tools.simulation.audit.amounts import Amount, amount
from tests.tools.simulation.audit.claims import asks
from tests.tools.simulation.audit.history import Held, History, total
from tests.tools.simulation.audit.pools import Device, Pool

Place = tuple[Pool, str]
State = tuple[frozenset[Place], Mapping[tuple[Pool, str, str], Amount], Mapping[tuple[Place, str], Amount]]
"""Devices taken, counters drawn, capacity consumed"""
MOST_STEPS = 5_000
"""Ways to meet the claims of members that are looked at for one gang"""


class Fitting:
    """The cluster at one time. Where it is unclear what counts, less is taken to be free."""

    def __init__(
        self,
        history: History,
        held: list[Held],
        classes: Mapping[str, tuple[str, str | None]],
        owned: frozenset[str],
    ) -> None:
        """`classes` are those that exist."""
        self._classes = classes
        self._steps = 0
        self._pools = {pool: state for pool, state in history.current().items() if pool[0] in owned}
        self._alone = {(one.hold.pool, one.hold.device) for one in held if not one.hold.share}
        self._consumed: dict[Place, dict[str, Amount]] = {}
        self._left: dict[Pool, dict[tuple[str, str], Amount]] = {}
        for one in held:
            if one.hold.share:
                of_device = self._consumed.setdefault((one.hold.pool, one.hold.device), {})
                for name, much in one.hold.consumed.items():
                    of_device[name] = of_device.get(name, 0) + much
        for pool, state in self._pools.items():
            here = {one.hold.device: history.most(one) for one in held if one.hold.pool == pool}
            drawn = total(iter(here.values()))
            self._left[pool] = {name: much - drawn.get(name, 0) for name, much in state.totals.items()}

    def fits(self, claims: list[Any], nodes: frozenset[str]) -> str | None:
        """A node on which all the claims could be met together. A class that is missing spoils a claim."""
        if not all(
            wish["deviceClassName"] in self._classes
            for claim in claims
            for ways in asks(claim)
            for _, wish in ways
        ):
            return None
        for node in sorted(nodes):
            for ways in product(*(ways for claim in claims for ways in asks(claim))):
                wishes = [wish for _, wish in ways for _ in range(wish.get("count", 1))]
                if self._place(wishes, node, frozenset(), {}, {}):
                    return node
        return None

    def together(self, members: list[list[Any]], nodes: frozenset[str]) -> bool:
        """Whether the claims of each member could be met on some node, all at once; no if it gives up."""
        self._steps = 0
        wishes = [[wish for claim in claims for ways in asks(claim) for wish in ways] for claims in members]
        if any(wish["deviceClassName"] not in self._classes for of in wishes for _, wish in of):
            return False
        return self._members(members, nodes, frozenset(), {}, {})

    def _members(
        self,
        members: list[list[Any]],
        nodes: frozenset[str],
        taken: frozenset[Place],
        drawn: Mapping[tuple[Pool, str, str], Amount],
        shared: Mapping[tuple[Place, str], Amount],
    ) -> bool:
        if not members:
            return True
        claims, *rest = members
        for node in sorted(nodes):
            for ways in product(*(ways for claim in claims for ways in asks(claim))):
                wishes = [wish for _, wish in ways for _ in range(wish.get("count", 1))]
                for state in self._states(wishes, node, taken, drawn, shared):
                    self._steps += 1
                    if self._steps > MOST_STEPS:
                        return False
                    if self._members(rest, nodes, *state):
                        return True
        return False

    def _place(
        self,
        wishes: list[Any],
        node: str,
        taken: frozenset[Place],
        drawn: Mapping[tuple[Pool, str, str], Amount],
        shared: Mapping[tuple[Place, str], Amount],
    ) -> bool:
        return next(self._states(wishes, node, taken, drawn, shared), None) is not None

    def _states(
        self,
        wishes: list[Any],
        node: str,
        taken: frozenset[Place],
        drawn: Mapping[tuple[Pool, str, str], Amount],
        shared: Mapping[tuple[Place, str], Amount],
    ) -> Iterator[State]:
        """What is taken then, for every way to meet the wishes."""
        if not wishes:
            yield taken, drawn, shared
            return
        wish, *rest = wishes
        for pool, name, device in self._candidates(wish, node):
            place = (pool, name)
            if place in taken or place in self._alone:
                continue
            if device.capacity is not None:
                more = self._share(wish, place, device, shared)
                if more is not None:
                    yield from self._states(rest, node, taken, drawn, more)
                continue
            if place in self._consumed:  # it was shared once, and still is for those
                continue
            now = dict(drawn)
            for (set_, counter), much in device.draws.items():
                now[pool, set_, counter] = now.get((pool, set_, counter), 0) + much
            if device.draws and not self._counts(pool, now):
                continue
            yield from self._states(rest, node, taken | {place}, now, shared)

    def _candidates(self, wish: Any, node: str) -> Iterator[tuple[Pool, str, Device]]:
        found = self._classes.get(wish["deviceClassName"])
        if found is None:
            return
        driver, profile = found
        for pool, state in self._pools.items():
            if pool[0] != driver:
                continue
            for name, device in state.devices.items():
                if node in device.nodes and (profile is None or device.profile == profile):
                    yield pool, name, device

    def _counts(self, pool: Pool, drawn: Mapping[tuple[Pool, str, str], Amount]) -> bool:
        """CTR-6: one counter below zero closes the pool."""
        return all(
            drawn.get((pool, set_, counter), 0) <= left for (set_, counter), left in self._left[pool].items()
        )

    def _share(
        self, wish: Any, place: Place, device: Device, shared: Mapping[tuple[Place, str], Amount]
    ) -> Mapping[tuple[Place, str], Amount] | None:
        asked = wish.get("capacity", {}).get("requests", {})
        now = dict(shared)
        for name, published in (device.capacity or {}).items():
            much = amount(asked.get(name, "1G"))
            now[place, name] = now.get((place, name), 0) + much
            if self._consumed.get(place, {}).get(name, 0) + now[place, name] > published:
                return None
        return now
