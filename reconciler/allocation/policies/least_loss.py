"""`least-loss`: prefers what leaves most of the demand a place.

The value of a node is the sum over the shapes of the demand of value x floor(devices on which the shape fits
now / devices that it asks for). The candidate that loses least of it wins, then the fuller counter set, then
first-fit order. A shape is worth its size unless the demand says otherwise: how often it is asked for does
not count, since frequent small shapes would close the places of rare large ones. Without a demand, every
device counts by its size.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.dra.availability import available
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.consumption import Consumption
from reconciler.allocation.dra.request_options import RequestKey, RequestOption
from reconciler.allocation.dra.state import State
from reconciler.allocation.dra.static_match import match_in_fleet
from reconciler.allocation.policies import policy as base
from reconciler.allocation.policies.compiled_demand import (
    COUNTS,
    FULLNESS,
    WHOLE,
    SetLosses,
    Wanted,
    left_of_sets,
    nodes_of,
    requests_of,
    size_of,
    sizes,
)
from reconciler.allocation.policies.demand import NO_DEMAND, Demand
from reconciler.state.caches import Cache, Recent, derived
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.snapshot import Snapshot, Topology, View

PRICE = 4
"""What a node loses costs more by so many times its pressure"""
MOST = 60 * WHOLE
"""More pressure counts as so much, times `PRICE`, so that keys stay below `LAST`"""
PARTS = 10
"""Binary digits of a price after the point"""
KEPT_PRESSURES = 2
"""Demands whose pressure is cached for one topology, at least: the one in use, and those that it replaced"""


def guarded_keys(keys: Amounts, demand: Demand, snapshot: Snapshot) -> Amounts:
    """(N,) the keys of `least-loss` for nodes with the price of pressure on what each loses."""
    pressing = _pressing(demand, snapshot)
    if pressing is None:
        return keys
    fullness = keys % FULLNESS
    found: Amounts = (keys // FULLNESS * pressing >> PARTS) * FULLNESS + fullness
    return np.where(keys < base.FARTHEST, found, base.LAST)


_PRESSING: Cache[Topology, Recent[str, tuple[object, Amounts | None]]] = Cache(
    lambda _: Recent(KEPT_PRESSURES)
)


def _pressing(demand: Demand, snapshot: Snapshot) -> Amounts | None:
    """(N,) what a loss on each node is multiplied with, times 2^`PARTS`; None if all are equal.

    Cached by topology and classes.
    """
    known = _PRESSING.of(snapshot.topology)
    classes, found = known.get(demand.digest) or (None, None)
    if classes is not snapshot.classes:
        price = (WHOLE + np.minimum(PRICE * pressure(demand, snapshot), MOST) << PARTS) // WHOLE
        found = price if len(price) and (price != price[0]).any() else None
        known.put(demand.digest, (snapshot.classes, found))
    return found


def pressure(demand: Demand, snapshot: Snapshot) -> Amounts:
    """(N,) thousandths of each node's devices that shapes ask for that cannot go everywhere.

    A shape that names several nodes presses on each the same, relative to the devices of all of them.
    """
    codes = snapshot.fleet.codes["node"][_first_rows(snapshot.fleet)]
    per_code = np.bincount(codes[codes >= 0], minlength=len(snapshot.fleet.vocabulary.nodes.values) + 1)
    size: Amounts = per_code[np.maximum(snapshot.topology.order_codes, -1)].astype(np.int64)
    pressing, total = [], 0
    for shape in demand.shapes:
        for slot in shape.slots(snapshot):
            nodes = nodes_of(slot.options[0], snapshot)
            asked = shape.weight * size_of(slot.options[0], snapshot)
            total += asked
            if not (nodes | (size == 0)).all():
                pressing.append((nodes, asked))
    found: Amounts = np.zeros(len(size), dtype=np.int64)
    for nodes, asked in pressing:
        if own := int(size[nodes].sum()):
            found[nodes] += WHOLE * asked * int(size.sum()) // (total * own)
    return found


@derived
def _first_rows(fleet: Fleet) -> Rows:
    """Rows that stand for a device each: those without counter sets, and the first of each set.

    All that draw from one counter set are one device.
    """
    if not fleet.sets.shape[1]:
        return np.arange(fleet.size)
    first = fleet.sets[:, 0]
    drawing = np.flatnonzero(first >= 0)
    _, at = np.unique(first[drawing], return_index=True)
    found: Rows = np.concatenate([np.flatnonzero((fleet.sets < 0).all(axis=1)), drawing[at]])
    return found


class NodeLosses:
    """Keys of sets: the value that the node loses, then what is left of the counter sets they draw from.

    The value of a node is the sum over S requests of weight x floor(devices on which it fits / devices that
    it asks for), or the size of all free devices without a demand. Exact for any set, while keys of single
    devices cannot be added: two devices may close the same place.
    """

    def __init__(self, wanted: Sequence[Wanted] | None, view: View, snapshot: Snapshot) -> None:
        """`wanted` are the requests of the demand; None without a demand: devices count by their size."""
        self._wanted, self._view, self._snapshot = wanted or (), view, snapshot
        rows = view.rows
        if wanted is not None:
            suits = [available(one.option, snapshot).mask[rows] for one in wanted]
            self._suits = np.array(suits, dtype=np.int64).reshape(len(wanted), len(rows))
            self._count = np.array([one.count for one in wanted], dtype=np.int64)
            self._weight = np.array([one.weight for one in wanted], dtype=np.int64)
        else:
            self._suits = (view.of(snapshot.occupancy.free) * view.of(sizes(snapshot.fleet)))[None]
            self._count = self._weight = np.ones(1, dtype=np.int64)
        self._now = self._value(self._suits.sum(axis=1)[None])[0]
        self._left = np.minimum(left_of_sets(rows, snapshot), FULLNESS - 1)
        _, classes = np.unique(self._suits, axis=1, return_inverse=True)
        self.classes: Codes = classes.reshape(-1).astype(np.int32)
        """(n,) see `SetJudge.classes`"""

    def keys(self, states: Sequence[State]) -> Amounts:
        """See `SetJudge.keys`."""
        still_open = np.array([state.fit & ~state.taken for state in states], dtype=np.int64)
        counts = still_open @ self._suits.T
        for at, state in enumerate(states):
            for device, consumed in state.shares.items():
                counts[at] -= self._suits[:, device] * self._used_up(device, consumed)
        left = [sum(int(self._left[choice.at]) for choice in state.chosen) for state in states]
        lost: Amounts = (self._now - self._value(counts)) * FULLNESS
        return lost + np.minimum(np.array(left, dtype=np.int64), FULLNESS - 1)

    def _value(self, counts: Amounts) -> Amounts:
        """(K,) the value of nodes with so many devices (K, S) for each request."""
        found: Amounts = (counts // self._count * self._weight).sum(axis=1)
        return found

    def _used_up(self, device: int, consumed: object) -> Amounts:
        """(S,) 1 for requests that do not fit a shared device any more; 0 without a demand."""
        found = np.zeros(len(self._count), dtype=np.int64)
        shape = int(self._snapshot.fleet.codes["shape"][self._view.row(device)])
        for at, one in enumerate(self._wanted):
            theirs = match_in_fleet(one.option, self._snapshot).consumption.get(shape)
            if isinstance(theirs, Consumption) and isinstance(consumed, dict):
                found[at] = not theirs.fits(consumed)
        return found


class Groups(Struct, frozen=True, eq=False):
    """G requests of a demand for several devices, and what a request takes of these devices."""

    options: Sequence[RequestOption]
    count: Amounts
    """(G, 1) devices that each asks for"""
    weight: Amounts
    """(G, 1)"""
    taken: Amounts
    """(G, N + 1) how many of them the request takes, by the fleet's code of the node"""

    @classmethod
    def meeting(cls, wanted: Sequence[Wanted], option: RequestOption, snapshot: Snapshot) -> "Groups":
        """Those that use devices of a request."""
        found = [
            (one, max(option.source.wanted, 1) * meets)
            for one in wanted
            if one.count > 1 and (meets := _meets(one.option, option, snapshot)).any()
        ]
        return cls(
            [one.option for one, _ in found],
            np.array([[one.count] for one, _ in found], dtype=np.int64),
            np.array([[one.weight] for one, _ in found], dtype=np.int64),
            np.array([taken for _, taken in found], dtype=np.int64),
        )

    def losses(self, snapshot: Snapshot) -> Amounts:
        """(nodes,) weight x `COUNTS`, in the order of the topology. A device of a group counts for a part of
        the weight already. These are the differences to what is really lost: a group less, or none.
        """
        # Counts by the codes of nodes have as many entries as there were codes when they were made.
        codes = np.maximum(snapshot.topology.order_codes, -1)
        before = np.array([available(option, snapshot).per_node[codes] for option in self.options])
        taken = self.taken[:, codes]
        lost = before // self.count - np.maximum(before - taken, 0) // self.count
        found: Amounts = self.weight * (COUNTS * lost - COUNTS // self.count * taken)
        return found.sum(axis=0)


def _meets(one: RequestOption, other: RequestOption, snapshot: Snapshot) -> Amounts:
    """(N + 1,) 1 for nodes, by the fleet's code, with a device that both requests may take."""
    both = match_in_fleet(one, snapshot).suitable & match_in_fleet(other, snapshot).suitable
    found = np.zeros(len(snapshot.fleet.vocabulary.nodes.values) + 1, dtype=np.int64)
    found[snapshot.fleet.codes["node"][both]] = 1
    found[-1] = 0  # devices without a node
    return found


class SharedLosses:
    """Losses of one demand by what shares consume. Valid for one fleet."""

    def __init__(self, wanted: Sequence[Wanted], snapshot: Snapshot) -> None:
        self._wanted = wanted
        suits = [match_in_fleet(one.option, snapshot).suitable for one in wanted]
        self._model, self._first = _models(
            np.array(suits, dtype=np.bool_).reshape(len(wanted), snapshot.fleet.size)
        )

    def of(self, option: RequestOption, rows: Rows, snapshot: Snapshot) -> Amounts:
        """(n,) the weight, times `COUNTS`, of what fits the shared devices no longer."""
        number, shape = snapshot.occupancy.consumption[rows], snapshot.fleet.codes["shape"][rows]
        states = list(zip(self._model[rows].tolist(), number.tolist(), shape.tolist(), strict=True))
        lost = {state: self._loss(option, *state, snapshot) for state in set(states)}
        return np.array([lost[state] for state in states], dtype=np.int64)

    def _loss(self, option: RequestOption, model: int, number: int, shape: int, snapshot: Snapshot) -> int:
        taken = match_in_fleet(option, snapshot).consumption.get(shape)
        if not isinstance(taken, Consumption):
            return 0
        before = snapshot.occupancy.consumptions.values[number]
        after = taken.added_to(before)
        total = 0
        for one in self._wanted:
            static = match_in_fleet(one.option, snapshot)
            theirs = static.consumption.get(shape)
            if static.suitable[self._first[model]] and isinstance(theirs, Consumption):
                total += one.of_device * (theirs.fits(before) and not theirs.fits(after))
        return total


def _models(suits: np.ndarray) -> tuple[Codes, Rows]:
    """(D,) the same number for devices that suit the same requests, and (M,) the first device of each.

    suits (W, D)  whether a device suits a request
    """
    model = np.zeros(suits.shape[1], dtype=np.int64)
    for eight in np.packbits(suits, axis=0):
        model = np.unique(model << 8 | eight, return_inverse=True)[1].reshape(-1)
    _, first = np.unique(model, return_index=True)
    return model.astype(np.int32), first.astype(np.intp)


KEPT = 32
"""Requests whose groups are kept for one demand, at least"""


class LeastLoss(Struct, frozen=True):
    """Prefers the device, and the node, whose value drops least."""

    demand: Demand = NO_DEMAND
    name: str = "least-loss"
    seed: int = 0
    guarded: bool = False
    """Whether claims that may go anywhere leave the nodes that others ask for by name. Needs a demand"""

    @property
    def digest(self) -> str:
        """See `Policy.digest`."""
        return self.demand.digest

    @property
    def key(self) -> tuple[str, ...]:
        """See `DevicePolicy.key`."""
        return self.name, self.demand.digest

    def nodes(self, question: base.PolicyQuestion, among: Mask) -> Amounts | None:
        """See `Policy.nodes`."""
        keys = base.node_keys(self, question, among)
        if self.guarded and self.demand.shapes:
            return guarded_keys(keys, self.demand, question.snapshot)
        return keys

    def devices(self, question: base.PolicyQuestion, candidates: Candidates, view: View) -> Rows | None:
        """See `Policy.devices`."""
        return base.in_order(self, candidates, view, question.snapshot)

    def sets(self, question: base.PolicyQuestion, view: View) -> base.SetJudge | None:
        """See `Policy.sets`."""
        wanted = _tables(self, question.snapshot).wanted
        return NodeLosses(wanted or None, view, question.snapshot)

    def judge(self, option: RequestOption, rows: Rows, snapshot: Snapshot) -> Amounts:
        """See `DevicePolicy.judge`."""
        tables = _tables(self, snapshot)
        losses = tables.of_sets(snapshot)
        found = losses.of_row[rows]
        if tables.only_sets:
            return found
        sharing = np.flatnonzero(snapshot.fleet.shared[rows])
        if len(sharing):
            found[sharing] = tables.of_shares(snapshot).of(option, rows[sharing], snapshot) * FULLNESS
        others = np.flatnonzero(~losses.alone[rows] | snapshot.fleet.shared[rows])
        if len(others) and snapshot.fleet.sets.shape[1]:
            found[others] += np.minimum(left_of_sets(rows[others], snapshot), FULLNESS - 1)
        return found

    def judge_nodes(self, option: RequestOption, least: Amounts, snapshot: Snapshot) -> Amounts:
        """See `DevicePolicy.judge_nodes`. Several devices count as the preferred one so many times."""
        taken, tables = max(option.source.wanted, 1), _tables(self, snapshot)
        groups = tables.of_groups(option, snapshot)
        if taken == 1 and not groups.options:
            return least
        suits = least < base.LAST
        found = np.where(suits, least, 0) * taken
        if groups.options:
            found += groups.losses(snapshot) * FULLNESS
        return np.where(suits, found, base.LAST)


class _Tables:
    """What is derived from one demand for one fleet, and follows the allocations."""

    def __init__(self, demand: Demand, snapshot: Snapshot) -> None:
        self.classes: object = snapshot.classes
        """What the requests were read with"""
        self.wanted: tuple[Wanted, ...] = requests_of(demand, snapshot)
        """The requests of the demand"""
        self._sets = SetLosses(self._weigh, snapshot)
        self.only_sets = bool(self._sets.alone.all()) and not snapshot.fleet.shared.any()
        """Whether the losses of counter sets say all about every device"""
        self._shares: SharedLosses | None = None
        self._groups: Recent[tuple[RequestKey, int], Groups] = Recent(KEPT)
        """By request and its devices: keys do not say how many"""

    def of_sets(self, snapshot: Snapshot) -> SetLosses:
        """The losses of all devices."""
        if not self._sets.reaches(snapshot):
            self._sets = SetLosses(self._weigh, snapshot)
        self._sets.follow(snapshot)
        return self._sets

    def of_shares(self, snapshot: Snapshot) -> SharedLosses:
        """The losses of shared devices."""
        if self._shares is None:
            self._shares = SharedLosses(self.wanted, snapshot)
        return self._shares

    def of_groups(self, option: RequestOption, snapshot: Snapshot) -> Groups:
        """The shapes of several devices that a request may cost something."""
        at = option.key, option.source.wanted
        return self._groups.of(at, lambda: Groups.meeting(self.wanted, option, snapshot))

    def _weigh(self, snapshot: Snapshot) -> Amounts:
        """(D,) the weight of the demand that each device could serve, or its size if there is no demand."""
        found: Amounts = np.zeros(snapshot.fleet.size, dtype=np.int64)
        for one in self.wanted:
            found[match_in_fleet(one.option, snapshot).suitable] += one.of_device
        return found if self.wanted else sizes(snapshot.fleet)


_TABLES: Cache[Fleet, dict[tuple[str, ...], _Tables]] = Cache(lambda _: {})
"""The tables follow the allocations of one snapshot, so a fork has its own."""


def _tables(policy: LeastLoss, snapshot: Snapshot) -> _Tables:
    known = _TABLES.of(snapshot.fleet)
    found = known.get(policy.key)
    if found is None or found.classes is not snapshot.classes:
        found = known[policy.key] = _Tables(policy.demand, snapshot)
    return found
