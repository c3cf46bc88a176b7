"""`least-loss`: prefers what leaves most of the demand a place.

The value of a node is the sum over the shapes of the demand of value x floor(devices on which the shape fits
now / devices that it asks for). The candidate that loses least of it wins, then the fuller counter set, then
first-fit order. A shape is worth its size unless the demand says otherwise: how often it is asked for does
not count, since frequent small shapes would close the places of rare large ones. Without a demand, every
device counts by its size.
"""

from collections import OrderedDict
from dataclasses import dataclass
from math import lcm

import numpy as np

from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.dra.availability import available
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.capacity import Consumption
from reconciler.allocation.dra.request_options import RequestKey, RequestOption
from reconciler.allocation.dra.static_match import match_in_fleet
from reconciler.allocation.policies.by_device import in_order, node_keys
from reconciler.allocation.policies.compiled_demand import taking
from reconciler.allocation.policies.demand import NO_DEMAND, Demand
from reconciler.allocation.policies.node_losses import Counted, NodeLosses
from reconciler.allocation.policies.policy import LAST, Question, SetJudge
from reconciler.allocation.policies.room_left import WHOLE, left_of_sets
from reconciler.allocation.policies.set_losses import FULLNESS, SetLosses
from reconciler.state.caches import Cache, share
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.snapshot.snapshot import Snapshot, View

HEAVIEST = 2**14
"""Weights are scaled to at most this"""
MOST_DEVICES = 8
"""Shapes that ask for more devices count as shapes of so many"""
COUNTS = lcm(*range(1, MOST_DEVICES + 1))
"""Weights are multiples of it, so that each device of a shape is a whole part of its weight"""
KEPT = 4096
"""Pairs of requests whose common nodes are cached for one fleet"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One request of a shape of the demand."""

    option: RequestOption
    count: int
    weight: int


@dataclass(frozen=True)
class LeastLoss:
    """Prefers the device, and the node, whose value drops least."""

    demand: Demand = NO_DEMAND
    name: str = "least-loss"
    seed: int = 0

    @property
    def digest(self) -> str:
        """See `Policy.digest`."""
        return self.demand.digest

    @property
    def key(self) -> tuple[str, ...]:
        """See `DevicePolicy.key`."""
        return self.name, self.demand.digest

    def nodes(self, question: Question, among: Mask) -> Amounts | None:
        """See `Policy.nodes`."""
        return node_keys(self, question, among)

    def devices(self, question: Question, candidates: Candidates, view: View) -> Rows | None:
        """See `Policy.devices`."""
        return in_order(self, candidates, view, question.snapshot)

    def sets(self, question: Question, view: View) -> SetJudge | None:
        """See `Policy.sets`."""
        wanted = _wanted(self, question.snapshot)
        counted = [Counted(one.option, one.count, one.weight * COUNTS) for one in wanted]
        weights = None if wanted else view.of(sizes(question.snapshot.fleet))
        return NodeLosses(counted, weights, view, question.snapshot)

    def judge(self, option: RequestOption, rows: Rows, snapshot: Snapshot) -> Amounts:
        """See `DevicePolicy.judge`."""
        losses = _losses(self, snapshot)
        found = losses.of_row[rows]
        sharing = np.flatnonzero(snapshot.fleet.shared[rows])
        if len(sharing):
            wanted = _wanted(self, snapshot)
            found[sharing] = _shared_losses(wanted, option, rows[sharing], snapshot) * FULLNESS
        others = np.flatnonzero(~losses.alone[rows] | snapshot.fleet.shared[rows])
        if len(others) and snapshot.fleet.sets.shape[1]:
            found[others] += np.minimum(left_of_sets(rows[others], snapshot), FULLNESS - 1)
        return found

    def judge_nodes(self, option: RequestOption, least: Amounts, snapshot: Snapshot) -> Amounts:
        """See `DevicePolicy.judge_nodes`. Several devices count as the preferred one so many times."""
        taken = max(option.source.wanted, 1)
        found = np.where(least < LAST, least, 0) * taken
        codes = np.maximum(snapshot.topology.order_codes, -1)
        for one in _wanted(self, snapshot):
            if one.count > 1:
                found += _several(one, option, taken, codes, snapshot) * FULLNESS
        return np.where(least < LAST, found, LAST)


def _several(one: Wanted, option: RequestOption, taken: int, codes: Rows, snapshot: Snapshot) -> Amounts:
    """(N,) what a shape of several devices loses on each node, less the parts that `_weigh` counts for it."""
    before = available(one.option, snapshot).per_node[codes]
    lost = taken * _meets(one.option, option, snapshot)[codes]
    left = np.maximum(before - lost, 0)
    whole = one.weight * COUNTS * (before // one.count - left // one.count)
    found: Amounts = whole - one.weight * (COUNTS // one.count) * lost
    return found


_MEETING: Cache[Fleet, OrderedDict[tuple[RequestKey, RequestKey], Amounts]] = Cache(lambda _: OrderedDict())
_WANTED: Cache[Fleet, dict[tuple[str, ...], tuple[object, tuple[Wanted, ...]]]] = Cache(lambda _: {})
_LOSSES: Cache[Fleet, dict[tuple[str, ...], SetLosses]] = Cache(lambda _: {})


def _meets(one: RequestOption, other: RequestOption, snapshot: Snapshot) -> Amounts:
    """(N + 1,) 1 for nodes, by the fleet's code, with a device that both requests may take."""
    known, at = _MEETING.of(snapshot.fleet), (one.key, other.key)
    if at not in known:
        both = match_in_fleet(one, snapshot).suitable & match_in_fleet(other, snapshot).suitable
        found = np.zeros(len(snapshot.fleet.vocabulary.nodes.values) + 1, dtype=np.int64)
        found[snapshot.fleet.codes["node"][both]] = 1
        found[-1] = 0  # devices without a node
        known[at] = found
        if len(known) > KEPT:
            known.popitem(last=False)
    return known[at]


def _wanted(policy: LeastLoss, snapshot: Snapshot) -> tuple[Wanted, ...]:
    """The requests of the demand, each once for a shape, with weights of at most `HEAVIEST`."""
    known = _WANTED.of(snapshot.fleet)
    classes, found = known.get(policy.key, (None, ()))
    if classes is not snapshot.classes:
        values = [
            (slot.options[0], shape.value or _size(slot.options[0], snapshot))
            for shape in policy.demand.shapes
            for slot in shape.slots(snapshot)
        ]
        heaviest = max((one for _, one in values), default=1)
        found = tuple(
            Wanted(
                option, min(max(option.source.wanted, 1), MOST_DEVICES), max(one * HEAVIEST // heaviest, 1)
            )
            for option, one in values
        )
        known[policy.key] = snapshot.classes, found
        _LOSSES.of(snapshot.fleet).pop(policy.key, None)
    return found


def _size(option: RequestOption, snapshot: Snapshot) -> int:
    """Thousandths of all devices that the request takes; at least 1."""
    one = taking(option, snapshot)
    units = one.units
    if not one.plain:
        units = int(sizes(snapshot.fleet)[match_in_fleet(option, snapshot).suitable].max(initial=1))
    return max(units, 1) * max(option.source.wanted, 1)


def _losses(policy: LeastLoss, snapshot: Snapshot) -> SetLosses:
    """The losses of all devices in a snapshot."""
    wanted, known = _wanted(policy, snapshot), _LOSSES.of(snapshot.fleet)
    found = known.get(policy.key)
    if found is None or not found.reaches(snapshot):
        found = known[policy.key] = SetLosses(lambda seen: _weigh(wanted, seen), snapshot)
    found.follow(snapshot)
    return found


def _weigh(wanted: tuple[Wanted, ...], snapshot: Snapshot) -> Amounts:
    """(D,) the weight of the demand that each device could serve, or its size if there is no demand."""
    fleet = snapshot.fleet
    found: Amounts = np.zeros(fleet.size, dtype=np.int64)
    for one in wanted:
        found[match_in_fleet(one.option, snapshot).suitable] += one.weight * (COUNTS // one.count)
    return found if wanted else sizes(fleet)


def _sizes(fleet: Fleet) -> Amounts:
    """(D,) thousandths of its sets that a device draws, the mean over their counters; 1000 without sets."""
    found: Amounts = np.where((fleet.sets >= 0).any(axis=1), 0, WHOLE)
    for k in range(fleet.sets.shape[1]):
        rows = np.flatnonzero(fleet.sets[:, k] >= 0)
        pairs = fleet.draws[rows, k].astype(np.int64) << 32 | fleet.sets[rows, k].astype(np.int64)
        pairs, which = np.unique(pairs, return_inverse=True)
        total = fleet.totals[pairs & 0xFFFFFFFF]
        scale = (total >> 40) + 1  # so that thousandths of large amounts do not overflow
        drawn = np.minimum(fleet.table[pairs >> 32], total) // scale * WHOLE // np.maximum(total // scale, 1)
        mean = drawn.sum(axis=1) // np.maximum(np.count_nonzero(total, axis=1), 1)
        found[rows] += mean[which.reshape(-1)]
    return np.maximum(found, 1)


_SIZES = Cache(_sizes, on_fork=share)


def sizes(fleet: Fleet) -> Amounts:
    """(D,) thousandths of its sets that a device draws. Cached by fleet."""
    return _SIZES.of(fleet)


def _shared_losses(
    wanted: tuple[Wanted, ...], option: RequestOption, rows: Rows, snapshot: Snapshot
) -> Amounts:
    """(n,) the weight of what fits a shared device no longer once the request took its share of it."""
    occupancy, shape = snapshot.occupancy, snapshot.fleet.codes["shape"][rows]
    pairs = occupancy.consumption[rows].astype(np.int64) << 32 | (shape.astype(np.int64) + 1)
    pairs, which = np.unique(pairs, return_inverse=True)
    states = list(zip((pairs >> 32).tolist(), ((pairs & 0xFFFFFFFF) - 1).tolist(), strict=True))
    mine = match_in_fleet(option, snapshot).consumption
    found: Amounts = np.zeros(len(rows), dtype=np.int64)
    for one in wanted:
        static = match_in_fleet(one.option, snapshot)
        lost = []
        for number, code in states:
            theirs, taken = static.consumption.get(code), mine.get(code)
            if isinstance(theirs, Consumption) and isinstance(taken, Consumption):
                before = occupancy.consumptions.values[number]
                lost.append(theirs.fits(before) and not theirs.fits(taken.added_to(before)))
            else:
                lost.append(False)
        weight = one.weight * (COUNTS // one.count)
        found += weight * (np.array(lost)[which.reshape(-1)] & static.suitable[rows])
    return found
