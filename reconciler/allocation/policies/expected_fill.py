"""`expected-fill`: tries the demand on what a choice leaves, and takes the choice that costs least.

1. Order nodes by the points of `fgd`, less the pressure on their model: claims that may go anywhere leave the
   models that others name.
2. Keep the first nodes of a few distinct states.
3. Replay random sequences of the demand on each, as it is and as it would be, and prefer the least loss.
"""

import numpy as np

from kernels.fragmentation import WHOLE, Machines, Need, Sequences, filled
from kernels.fragmentation import Demand as KernelDemand
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.policies import fragmentation
from reconciler.allocation.policies.policy import LAST, PolicyQuestion
from reconciler.state.caches import Cache, Recent
from reconciler.state.devices.snapshot import Topology

CANDIDATES = 8
"""Distinct states that are tried"""
SEQUENCES = 24
LENGTH = 60
"""Needs of one sequence"""
PRICE = 8
"""What fills a model costs more by so small a part of the pressure on it. Without, the tail of candidates
takes what others name; with more, too few models remain to choose from."""
UNKNOWN = -1


class Fills:
    """How much of a state the sequences fill, remembered by state. Amounts of devices are sorted."""

    def __init__(self, shapes: KernelDemand, devices: int, seed: int) -> None:
        asks = np.flatnonzero(shapes.count > 0)
        self._demand = shapes.only(asks)
        self._kinds = np.zeros((0, LENGTH), dtype=np.int32)
        if len(asks):
            weight = self._demand.weight
            drawn = np.random.default_rng(seed).choice(
                len(asks), (SEQUENCES, LENGTH), p=weight / weight.sum()
            )
            self._kinds = drawn.astype(np.int32)
        self._devices = devices
        self._start_anew()

    def _start_anew(self) -> None:
        self._states = fragmentation.States(self._devices)
        self._fill: list[int] = []

    def losses(self, now: Machines, then: Machines) -> Amounts:
        """(B,) thousandths that the sequences fill less on the machines as they would be."""
        if len(self._states) > fragmentation.KEPT_STATES:
            self._start_anew()
        before, after = self._numbers(now), self._numbers(then)
        fresh = [at for at in dict.fromkeys([*before, *after]) if self._fill[at] == UNKNOWN]
        if fresh:
            sequences = Sequences(self._demand, self._kinds)
            values = filled(sequences, self._states.machines(np.array(fresh, dtype=np.intp)))
            for at, fill in zip(fresh, values.tolist(), strict=True):
                self._fill[at] = fill
        return np.array([self._fill[b] - self._fill[a] for b, a in zip(before, after, strict=True)])

    def _numbers(self, machines: Machines) -> list[int]:
        found = [
            self._states.number(cores, model, free)
            for cores, model, free in zip(
                machines.cores.tolist(), machines.model.tolist(), np.sort(machines.free, axis=1), strict=True
            )
        ]
        self._fill += [UNKNOWN] * (len(self._states) - len(self._fill))
        return found


_FILLS: Cache[Topology, Recent[tuple[str, int], Fills]] = Cache(lambda _: Recent(fragmentation.KEPT))


class ExpectedFill(fragmentation.Fgd, frozen=True, dict=True):
    """Prefers the node where the replayed demand loses least."""

    name: str = "expected-fill"

    def _keys(self, need: Need, question: PolicyQuestion, among: Mask) -> Amounts:
        found = super()._keys(need, question, among)
        scores, places = fragmentation.scores_of(self.demand, question), np.flatnonzero(among)
        if need.count:
            fits = places[found[places] != LAST]
            found[fits] += scores.compiled.pressure[scores.compiled.model[fits]]
        chosen = self._chosen(scores, need, places[np.argsort(found[places], kind="stable")], question)
        if chosen is not None and found[chosen] != LAST:
            states = scores.nodes.of_node
            found[places[states[places] == states[chosen]]] = -LAST  # the chosen one is the first of them
        return found

    def _chosen(
        self, scores: fragmentation.Scores, need: Need, ordered: Rows, question: PolicyQuestion
    ) -> int | None:
        """The place with the least loss among the first of each distinct state."""
        tried = _first_of_each_state(scores, ordered)
        if len(tried) < 2:
            return None
        now = scores.nodes.states.machines(scores.nodes.of_node[tried])
        then = taken(need, now, scores.devices(need, tried))
        losses = self._fills(scores, question).losses(now, then)
        if need.count:
            losses = losses * (PRICE * WHOLE + scores.compiled.pressure[scores.compiled.model[tried]])
        return int(tried[losses.argmin()])

    def _fills(self, scores: fragmentation.Scores, question: PolicyQuestion) -> Fills:
        return _FILLS.of(question.snapshot.topology).of(
            (self.demand.digest, self.seed),
            lambda: Fills(scores.compiled.shapes, scores.nodes.rows.shape[1], self.seed),
        )


def _first_of_each_state(scores: fragmentation.Scores, ordered: Rows) -> Rows:
    """(K,) the first places whose states differ, whatever the order of their devices."""
    states, seen, found = scores.nodes.states, set(), []
    numbers = scores.nodes.of_node[ordered].tolist()
    for place, number in zip(ordered.tolist(), numbers, strict=True):
        if number in seen:
            continue
        seen.add(number)
        state = int(states.cores[number]), int(states.model[number]), np.sort(states.free[number]).tobytes()
        if state not in seen:
            seen.add(state)
            found.append(place)
            if len(found) == CANDIDATES:
                break
    return np.array(found, dtype=np.intp)


def taken(need: Need, machines: Machines, device: Codes) -> Machines:
    """Machines with the need placed: on the device (B,), or on the first devices with enough if it is -1."""
    free = machines.free.copy()
    if need.count == 1 and need.units < WHOLE:
        free[np.arange(len(free)), device] -= need.units
    elif need.count:
        enough = free >= max(need.units, 1)
        free -= need.units * (enough & (enough.cumsum(axis=1) <= need.count))
    return Machines(machines.cores - need.cores, machines.model, free)
