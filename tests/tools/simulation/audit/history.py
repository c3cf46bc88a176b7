"""Who holds what and what every pool offered when: kept by looking at every change on the server."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.tools.simulation.audit.amounts import Amount
from tests.tools.simulation.audit.claims import Hold
from tests.tools.simulation.audit.pools import NONE, Draws, Pool, PoolState, pool_of, state_of

STALE = 100.0
"""Seconds. What a write was decided from may be that old: a connection is silent for 20 s until it breaks,
and what follows may be so too, after pauses; then come six requests, and their time on the way."""


@dataclass(frozen=True)
class Held:
    """A hold, since when, and in which life of the reconciler it began."""

    claim: str
    hold: Hold
    since: float
    life: int


class History:
    """The pools over time."""

    def __init__(self, zones: Mapping[str, str], now: Callable[[], float]) -> None:
        self.zones = zones
        self.now = now
        self._slices: dict[str, Any] = {}
        self._states: dict[Pool, list[tuple[float, PoolState]]] = {}
        self._known: Callable[[float], float] = lambda moment: moment

    def note(self, name: str, slice_: Any | None) -> None:
        """A slice is now like this, or gone."""
        before = self._slices.pop(name, None)
        if slice_ is not None:
            self._slices[name] = slice_
        for pool in {pool_of(one) for one in (before, slice_) if one is not None}:
            members = [one for one in self._slices.values() if pool_of(one) == pool]
            self._states.setdefault(pool, []).append((self.now(), state_of(members, self.zones)))

    def current(self) -> dict[Pool, PoolState]:
        return {pool: states[-1][1] for pool, states in self._states.items()}

    def between(self, pool: Pool, begin: float, end: float) -> list[PoolState]:
        """All states of a pool that stood at any time between two."""
        states = self._states.get(pool, [])
        found = []
        for at, (since, state) in enumerate(states):
            until = states[at + 1][0] if at + 1 < len(states) else self.now()
            if since <= end and until >= begin:
                found.append(state)
        return found or [PoolState({}, {})]

    def recent(self, pool: Pool) -> list[PoolState]:
        """The states from which a write that was just applied may have been decided."""
        return self.between(pool, self.now() - STALE, self.now())

    def least(self, held: Held, life: int) -> Draws:
        """The least that a held device is charged: what it drew when allocated, if that is remembered."""
        until = self.now() if held.life != life else held.since + STALE
        return _each(min, self._drawn(held, held.since - STALE, until))

    def most(self, held: Held) -> Draws:
        """What a held device may be charged at most."""
        return _each(max, self._drawn(held, held.since - STALE, self.now()))

    def _drawn(self, held: Held, begin: float, end: float) -> list[Draws]:
        return [state.draws(held.hold.device) for state in self.between(held.hold.pool, begin, end)]


def _each(pick: Callable[..., Amount], drawn: list[Draws]) -> Draws:
    if len(drawn) == 1:
        return drawn[0]
    names = {name for draws in drawn for name in draws}
    return {name: pick(draws.get(name, 0) for draws in drawn) for name in names} or NONE


def total(many: Iterator[Draws]) -> dict[tuple[str, str], Amount]:
    found: dict[tuple[str, str], Amount] = {}
    for draws in many:
        for name, much in draws.items():
            found[name] = found.get(name, 0) + much
    return found
