"""How much of a demand a snapshot can take at most, by weights: the proof that fewer nodes do not suffice.

Each request gets a weight for each of its devices. A device that several requests may use counts with the
highest of their weights, and the devices of one counter set are packed exactly, or bounded from above. So no
placement, whatever it is, has more weight than that (SIZE-1). Groups, constraints and rules of pods are
ignored: they only lower what is placed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernels.packing import unique_rows
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.dra.refusal import Fatal
from reconciler.allocation.dra.request_options import RequestOption, read_claims
from reconciler.allocation.dra.static_match import match_in_fleet
from reconciler.analysis.capacity.solver import PackingProblem, Solver
from reconciler.analysis.sizing.demand import Item
from reconciler.state.devices.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Need:
    """A request of an item that can be counted: a number of devices, each for itself."""

    item: int
    option: RequestOption
    count: int


def needs_of(items: Sequence[Item], snapshot: Snapshot) -> tuple[Need, ...]:
    """The requests of items that take whole devices, a fixed number of them, and have no alternative."""
    found: list[Need] = []
    for number, item in enumerate(items):
        try:
            slots = read_claims(item.unit.claims, snapshot.classes, snapshot.rules).slots
        except Fatal:
            continue
        for slot in slots:
            option = slot.options[0]
            if len(slot.options) == 1 and not option.all and not option.admin:
                found.append(Need(number, option, option.source.wanted))
    return tuple(found)


class Supply:
    """The free devices of a snapshot, as what R needs can use. Counter sets in one state are packed once."""

    def __init__(self, needs: Sequence[Need], snapshot: Snapshot, solver: Solver) -> None:
        self._needs = needs
        self._solver = solver
        fleet, occupancy = snapshot.fleet, snapshot.occupancy
        suits = np.zeros((fleet.size, len(needs)), dtype=np.bool_)
        self.countable: Mask = np.ones(len(needs), dtype=np.bool_)
        """(R,) needs that no device can serve twice"""
        for at, need in enumerate(needs):
            suits[:, at] = match_in_fleet(need.option, snapshot).suitable & occupancy.free
            self.countable[at] = not bool(fleet.shared[suits[:, at]].any())
        rows = np.flatnonzero(suits.any(axis=1))
        drawing = (fleet.sets[rows] >= 0).any(axis=1)
        self._whole, self._whole_counts = _counted(suits[rows[~drawing]])
        self._states = _states(suits, rows[drawing], snapshot)
        self._draws = [_draws(rows[suits[rows, at]], snapshot) for at in range(len(needs))]

    def most(self, weights: Sequence[int]) -> int:
        """An upper bound on the weight of all that can be placed.

        weights (R,)  weight of one device of each need, not negative; 0 for needs that are not countable
        """
        worth = np.array(weights, dtype=np.int64)
        found = int(_worth(self._whole, worth) @ self._whole_counts)
        for state in self._states:
            of_devices = _worth(state.suits, worth)
            keep = np.flatnonzero(of_devices)
            if len(keep):
                problem = PackingProblem(state.draws[keep], state.left, tuple(of_devices[keep].tolist()))
                found += state.sets * self._solver.solve(problem).bound
        return found

    def least(self, need: int, amounts: Amounts) -> int:
        """The least amount that a device of one need takes; 0 if a device draws from no set, or none suits.

        amounts (P,)  of each draw of the fleet
        """
        draws = self._draws[need]
        return int(amounts[draws].min()) if len(draws) and (draws >= 0).all() else 0

    def copies(self, item: int) -> int | None:
        """An upper bound on how many of one item can be placed; None if nothing limits them here."""
        limits = []
        for at, need in enumerate(self._needs):
            if need.item == item and self.countable[at] and need.count:
                single = [int(number == at) for number in range(len(self._needs))]
                limits.append(self.most(single) // need.count)
        return min(limits, default=None)


@dataclass(frozen=True, slots=True, eq=False)
class _State:
    """Counter sets with equal free devices and equal amounts left."""

    draws: Amounts
    """(n, C) of the free devices of one set"""
    suits: Mask
    """(n, R)"""
    left: Amounts
    """(C,)"""
    sets: int


def _states(suits: Mask, rows: Rows, snapshot: Snapshot) -> list[_State]:
    """Group sets by state. A device that draws from several sets counts in its first one only."""
    fleet, left = snapshot.fleet, snapshot.occupancy.left
    if not len(rows):
        return []
    at = (fleet.sets[rows] >= 0).argmax(axis=1)
    sets, draws = fleet.sets[rows, at], fleet.draws[rows, at]
    order = np.lexsort((draws, sets))
    rows, sets, draws = rows[order], sets[order], draws[order]
    starts = np.flatnonzero(np.append(True, sets[1:] != sets[:-1]))
    ends = np.append(starts[1:], len(sets))
    states: dict[tuple[bytes, bytes, bytes], _State] = {}
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        own, free = suits[rows[start:end]], left[sets[start]]
        key = draws[start:end].tobytes(), own.tobytes(), free.tobytes()
        known = states.get(key)
        states[key] = _State(fleet.table[draws[start:end]], own, free, 1 + (known.sets if known else 0))
    return list(states.values())


def _draws(rows: Rows, snapshot: Snapshot) -> Codes:
    """The distinct draws of devices from their first set; -1 for none."""
    fleet = snapshot.fleet
    if not fleet.sets.shape[1]:
        return np.full(min(len(rows), 1), -1, dtype=np.int32)
    at = (fleet.sets[rows] >= 0).argmax(axis=1)
    return np.unique(fleet.draws[rows, at])


def _counted(suits: Mask) -> tuple[Mask, Amounts]:
    """The distinct rows of a mask, and how often each occurs."""
    first, codes = unique_rows(suits.astype(np.int64))
    return suits[first], np.bincount(codes, minlength=len(first)).astype(np.int64)


def _worth(suits: Mask, weights: Amounts) -> Amounts:
    """(n,) the highest weight of the needs that each device suits."""
    return (suits * weights).max(axis=1, initial=0)
