"""How much of a demand a snapshot can take at most, by weights: the proof that fewer nodes do not suffice.

Each request gets a weight for each of its devices. A device that several requests may use counts with the
highest of their weights, and the devices of one counter set are packed exactly, or bounded from above. So no
placement, whatever it is, has more weight than that (SIZE-1). Groups, constraints and rules of pods are
ignored: they only lower what is placed.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from kernels.distinct import distinct
from kernels.packing import unique_rows
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.dra.refusal import Fatal
from reconciler.allocation.dra.request_options import RequestOption, read_claims
from reconciler.allocation.dra.static_match import match_in_fleet
from reconciler.analysis.capacity.solver import PackingProblem, Solver
from reconciler.analysis.sizing.demand import Item
from reconciler.state.devices.snapshot.snapshot import Snapshot


class Need(Struct, frozen=True):
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
        whole = rows[~drawing]
        self._whole, self._whole_counts = _counted(suits[whole])
        self._suits, self._node_of = suits[whole], fleet.codes["node"][whole]
        self._states, self._state_of, self._node_of_set = _states(suits, rows[drawing], snapshot)
        self._draws = [_draws(rows[suits[rows, at]], snapshot) for at in range(len(needs))]

    def most(self, weights: Sequence[int]) -> int:
        """An upper bound on the weight of all that can be placed.

        weights (R,)  weight of one device of each need, not negative; 0 for needs that are not countable
        """
        worth = np.array(weights, dtype=np.int64)
        found = int(_worth(self._whole, worth) @ self._whole_counts)
        found += sum(state.sets * self._packed(state, worth) for state in self._states)
        return found

    def least(self, need: int, amounts: Amounts) -> int:
        """The least amount that a device of one need takes; 0 if a device draws from no set, or none suits.

        amounts (P,)  of each draw of the fleet
        """
        draws = self._draws[need]
        return int(amounts[draws].min()) if len(draws) and (draws >= 0).all() else 0

    def copies(self, item: int) -> int | None:
        """An upper bound on how many of one item can be placed; None if nothing limits them here."""
        limits = [
            self._copies(at, need.count)
            for at, need in enumerate(self._needs)
            if need.item == item and self.countable[at] and need.count
        ]
        return min(limits, default=None)

    def _copies(self, at: int, count: int) -> int:
        """How often a need finds its devices on one node, at most."""
        single = [int(number == at) for number in range(len(self._needs))]
        nodes = np.concatenate([self._node_of[self._suits[:, at]], self._node_of_set])
        if count == 1 or (nodes < 0).any():  # several nodes may reach a device
            return self.most(single) // count
        of_state = [self._packed(state, np.array(single, dtype=np.int64)) for state in self._states]
        devices = np.concatenate(
            [
                np.ones(int(self._suits[:, at].sum()), dtype=np.int64),
                np.array(of_state, dtype=np.int64)[self._state_of],
            ]
        )
        on_node = np.bincount(nodes, weights=devices).astype(np.int64)
        return int((on_node // count).sum())

    def _packed(self, state: "_State", worth: Amounts) -> int:
        """The most weight of the devices of one set in a state."""
        of_devices = _worth(state.suits, worth)
        keep = np.flatnonzero(of_devices)
        if not len(keep):
            return 0
        problem = PackingProblem(state.draws[keep], state.left, tuple(of_devices[keep].tolist()))
        return self._solver.solve(problem).bound


class _State(Struct, frozen=True, eq=False):
    """Counter sets with equal free devices and equal amounts left."""

    draws: Amounts
    """(n, C) of the free devices of one set"""
    suits: Mask
    """(n, R)"""
    left: Amounts
    """(C,)"""
    sets: int


def _states(suits: Mask, rows: Rows, snapshot: Snapshot) -> tuple[list[_State], Rows, Codes]:
    """Group sets by state; (n,) the state of each set, and (n,) its node, -1 if its devices have several.

    A device that draws from several sets counts in its first one only.
    """
    fleet, left = snapshot.fleet, snapshot.occupancy.left
    if not len(rows):
        return [], np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.int32)
    at = (fleet.sets[rows] >= 0).argmax(axis=1)
    sets, draws = fleet.sets[rows, at], fleet.draws[rows, at]
    order = np.lexsort((draws, sets))
    rows, sets, draws = rows[order], sets[order], draws[order]
    starts = np.flatnonzero(np.append(True, sets[1:] != sets[:-1]))
    ends = np.append(starts[1:], len(sets))
    nodes = fleet.codes["node"][rows]
    lowest, highest = (each.reduceat(nodes, starts) for each in (np.minimum, np.maximum))
    states: dict[tuple[bytes, bytes, bytes], _State] = {}
    keys = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        own, free = suits[rows[start:end]], left[sets[start]]
        key = draws[start:end].tobytes(), own.tobytes(), free.tobytes()
        keys.append(key)
        known = states.get(key)
        states[key] = _State(fleet.table[draws[start:end]], own, free, 1 + (known.sets if known else 0))
    number = {key: at for at, key in enumerate(states)}
    state_of = np.array([number[key] for key in keys], dtype=np.intp)
    return list(states.values()), state_of, np.where(lowest == highest, lowest, -1).astype(np.int32)


def _draws(rows: Rows, snapshot: Snapshot) -> Codes:
    """The distinct draws of devices from their first set; -1 for none."""
    fleet = snapshot.fleet
    if not fleet.sets.shape[1]:
        return np.full(min(len(rows), 1), -1, dtype=np.int32)
    at = (fleet.sets[rows] >= 0).argmax(axis=1)
    return distinct(fleet.draws[rows, at])


def _counted(suits: Mask) -> tuple[Mask, Amounts]:
    """The distinct rows of a mask, and how often each occurs."""
    first, codes = unique_rows(suits.astype(np.int64))
    return suits[first], np.bincount(codes, minlength=len(first)).astype(np.int64)


def _worth(suits: Mask, weights: Amounts) -> Amounts:
    """(n,) the highest weight of the needs that each device suits."""
    return (suits * weights).max(axis=1, initial=0)
