"""A demand over the nodes of one topology, and what else stops fitting when a device is taken."""

from collections.abc import Callable, Collection, Mapping
from math import lcm
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kernels.fit import required
from kernels.fragmentation import Demand as KernelDemand
from kernels.fragmentation import Need
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.dra.consumption import Consumption
from reconciler.allocation.dra.request_options import RequestKey, RequestOption, Slot
from reconciler.allocation.dra.static_match import StaticMatch, match_in_fleet
from reconciler.allocation.policies.demand import Demand
from reconciler.state.caches import Cache, derived
from reconciler.state.devices.encoding.vocabulary import CapacitySlot
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.occupancy import Trail
from reconciler.state.devices.snapshot import Snapshot

WHOLE = 1000
"""Thousandths of one device"""


def left_of(names: tuple[str, ...], rows: Rows, snapshot: Snapshot) -> Amounts:
    """(n,) thousandths left of devices that are available; all of a device that is not shared.

    Of a shared device: the least over the named capacities, or over all without a name.
    """
    found: Amounts = np.full(len(rows), WHOLE, dtype=np.int64)
    sharing = np.flatnonzero(snapshot.occupancy.sharing[rows])
    if len(sharing):
        found[sharing] = _left_of_shared(names, rows[sharing], snapshot)
    return found


def _left_of_shared(names: tuple[str, ...], rows: Rows, snapshot: Snapshot) -> Amounts:
    """(n,) the same for devices that are held in shares; devices that are alike are evaluated once."""
    consumptions, shapes = snapshot.occupancy.consumptions, snapshot.fleet.vocabulary.shapes.values
    number, shape = snapshot.occupancy.consumption[rows], snapshot.fleet.codes["shape"][rows]
    states = list(zip(number.tolist(), shape.tolist(), strict=True))
    left = {
        (consumed, code): _thousandths(
            shapes[code] if code >= 0 else (), names, consumptions.values[consumed]
        )
        for consumed, code in set(states)
    }
    return np.array([left[state] for state in states], dtype=np.int64)


def _thousandths(slots: tuple[CapacitySlot, ...], names: tuple[str, ...], consumed: Mapping[str, int]) -> int:
    """The least part of the capacities that shares leave."""
    return min(
        [
            max(WHOLE - -(-consumed.get(slot.key, 0) * WHOLE // slot.value.nanos), 0)
            for slot in slots
            if slot.value.nanos > 0 and (not names or slot.key in names)
        ],
        default=WHOLE,
    )


def left_of_sets(rows: Rows, snapshot: Snapshot) -> Amounts:
    """(n,) thousandths left of all counters of the sets that a device draws from; 0 without any."""
    fleet = snapshot.fleet
    found: Amounts = np.zeros(len(rows), dtype=np.int64)
    for k in range(fleet.sets.shape[1]):
        sets = fleet.sets[rows, k]
        used, which = np.unique(sets[sets >= 0], return_inverse=True)
        if len(used):
            total = fleet.totals[used]
            share = left_of_set(snapshot.occupancy.left[used], total)
            found[sets >= 0] += share[which.reshape(-1)]
    return found


def left_of_set(left: Amounts, total: Amounts) -> Amounts:
    """(...,) thousandths left of all counters of a set, from (..., C) what is left and what there is."""
    scale = (total >> 40) + 1  # so that thousandths of large amounts do not overflow
    share = np.clip(left, 0, total) // scale * WHOLE // np.maximum(total // scale, 1)
    found: Amounts = np.where(total > 0, share, 0).sum(axis=-1)
    return found


FULLNESS = 2**16
"""More than the thousandths of all counters of most sets; only equal losses are ordered by fullness"""


class _Kind(Struct, eq=False):
    """Counter sets whose devices draw the same and have the same weights."""

    required: Amounts
    """(n, C) what must be left for each device"""
    draws: Amounts
    """(n, C) what each device takes"""
    weight: Amounts
    """(n,)"""


class SetLosses:
    """(D,) keys: the weight of all devices that fit no longer once a device is taken, then what is left.

    For devices that draw from one counter set that no device shares with another set. The key of others has
    their own weight. Valid for one fleet and one demand; follows the allocations.
    """

    def __init__(self, weigh: Callable[[Snapshot], Amounts], snapshot: Snapshot) -> None:
        """`weigh` returns the (D,) weights of devices."""
        fleet = snapshot.fleet
        self._fleet = fleet
        self._weight = weigh(snapshot)
        self._kinds: dict[bytes, _Kind] = {}
        self._kind_of: dict[int, _Kind] = {}
        self._trail: Trail = snapshot.occupancy.trail
        self._serial = snapshot.occupancy.serial
        self.of_row: Amounts = self._weight * FULLNESS
        """(D,) loss x `FULLNESS` + thousandths left of all counters of the set"""
        self.alone: Mask = np.zeros(fleet.size, dtype=np.bool_)
        """(D,) devices of such sets; the keys of others do not say what their sets have left"""
        for number in range(len(fleet.totals)):
            rows = fleet.by_set.of(number)
            sets = fleet.sets[rows]
            if len(rows) and (sets[:, 0] == number).all() and (sets[:, 1:] < 0).all():
                self._kind_of[number] = self._kind(rows)
                self.alone[rows] = True
        self._evaluate(self._kind_of, snapshot)

    def reaches(self, snapshot: Snapshot) -> bool:
        """Whether `follow` can update the losses to a snapshot."""
        return self._trail is snapshot.occupancy.trail and self._serial <= snapshot.occupancy.serial

    def follow(self, snapshot: Snapshot) -> None:
        """Update the losses to a snapshot. The cost depends on the sets that changed in between."""
        serial = snapshot.occupancy.serial
        if serial != self._serial and self._kind_of:
            rows = self._trail.between(self._serial, serial)
            self._evaluate(set(self._fleet.sets[rows, 0].tolist()), snapshot)
        self._serial = serial

    def _kind(self, rows: Rows) -> _Kind:
        fleet = self._fleet
        draws, weight = fleet.draws[rows, 0], self._weight[rows]
        key = draws.tobytes() + weight.tobytes() + fleet.totals[fleet.sets[rows[0], 0]].tobytes()
        if key not in self._kinds:
            self._kinds[key] = _Kind(required(fleet.table, draws), fleet.table[draws], weight)
        return self._kinds[key]

    def _evaluate(self, sets: Collection[int], snapshot: Snapshot) -> None:
        """Most sets are in one of few states: each state is evaluated once."""
        occupancy, known = snapshot.occupancy, dict[tuple[int, bytes], Amounts]()
        for number in sets:
            kind = self._kind_of.get(number)
            if kind is None:
                continue
            rows = self._fleet.by_set.of(number)
            left, held = occupancy.left[number], occupancy.held[rows]
            state = id(kind), left.tobytes() + held.tobytes()
            if state not in known:
                fullness = min(int(left_of_set(left, self._fleet.totals[number])), FULLNESS - 1)
                lost = losses_of(kind.required, kind.draws, kind.weight, left, held)
                known[state] = lost * FULLNESS + fullness
            self.of_row[rows] = known[state]


def losses_of(needed: Amounts, draws: Amounts, weight: Amounts, left: Amounts, held: Mask) -> Amounts:
    """(n,) for each device of a counter set: the weight of all that fit now and not after it is taken.

    needed (n, C)  what must be left for each device
    draws  (n, C)  what each device takes
    weight (n,)
    left   (C,)    what is left in the set
    held   (n,)    devices that are taken already
    """
    now = (needed <= left).all(axis=1) & ~held
    after = (needed <= (left - draws)[:, None]).all(axis=2) & now
    np.fill_diagonal(after, val=False)
    return ((now & ~after) * weight).sum(axis=1)


PRECISION = 1024
"""Parts of a thousandth in which pressure is summed up"""
TYPICAL = 95
"""Percent of the demand that the most frequent shapes make up"""


class CompiledDemand(Struct, frozen=True, eq=False):
    """T shapes, M models of nodes, N nodes. Shapes of partitions are left out."""

    shapes: KernelDemand
    model: Codes
    """(N,) in the order of `Topology.order`"""
    pressure: Amounts
    """(M,) thousandths of each model's devices that shapes ask for that cannot go everywhere"""

    def typical(self) -> KernelDemand:
        """The most frequent shapes."""
        shapes = self.shapes
        columns = (shapes.models[:, ::-1].T, shapes.count, shapes.units, shapes.cores, shapes.weight)
        rows = np.lexsort(np.concatenate([np.atleast_2d(one) for one in columns]))[::-1]
        share = np.cumsum(shapes.weight[rows]) * 100
        kept = rows[: int(np.searchsorted(share, TYPICAL * shapes.weight.sum())) + 1]
        return shapes.only(np.array(kept, dtype=np.intp))


def compile_for(demand: Demand, snapshot: Snapshot) -> CompiledDemand:
    """The demand over the nodes of a snapshot."""
    needs, serving, weights = [], [], []
    for shape in demand.shapes:
        slots = shape.slots(snapshot)
        if shape.spec is not None and not slots:
            continue
        option = largest(slots, snapshot)
        if option is not None and not taking(option, snapshot).plain:
            continue
        needs.append(need_of(option, shape.cores, snapshot))
        serving.append(nodes_of(option, snapshot))
        weights.append(shape.weight)
    return _compiled(needs, serving, weights, snapshot)


def _compiled(
    needs: list[Need], serving: list[Mask], weights: list[int], snapshot: Snapshot
) -> CompiledDemand:
    count = len(snapshot.topology.order)
    nodes = np.array(serving, dtype=np.bool_).reshape(len(serving), count)
    kinds, which = np.unique(nodes.T, axis=0, return_inverse=True)
    model: Codes = which.reshape(-1).astype(np.int32)
    columns = np.array([(one.cores, one.units, one.count) for one in needs], dtype=np.int64).reshape(-1, 3).T
    weight = np.array(weights, dtype=np.int64)
    shapes = KernelDemand(columns[0], columns[1], columns[2], kinds.T, weight)
    return CompiledDemand(shapes, model, _pressure(shapes, model, snapshot))


def _pressure(shapes: KernelDemand, model: Codes, snapshot: Snapshot) -> Amounts:
    """(M,) devices asked for by shapes that name the model, relative to the devices of all they name."""
    devices = np.count_nonzero(device_rows(snapshot) >= 0, axis=1)
    size = np.bincount(model, weights=devices, minlength=shapes.models.shape[1]).astype(np.int64)
    asked = shapes.weight * shapes.count
    everywhere = (shapes.models | (size == 0)).all(axis=1)
    found: Amounts = np.zeros(len(size), dtype=np.int64)
    for at in np.flatnonzero(~everywhere & (asked > 0)).tolist():
        own = int(size[shapes.models[at]].sum())
        if own:
            part = WHOLE * int(asked[at]) * int(size.sum()) * PRECISION // (int(asked.sum()) * own)
            found[shapes.models[at]] += part
    return (found + PRECISION // 2) // PRECISION


def largest(slots: tuple[Slot, ...], snapshot: Snapshot) -> RequestOption | None:
    """The first alternative of the request that takes most; None without requests."""
    options = [slot.options[0] for slot in slots]
    return max(options, key=lambda option: _size(option, snapshot), default=None)


def _size(option: RequestOption, snapshot: Snapshot) -> int:
    need = need_of(option, 0, snapshot)
    return need.units * need.count


class Taking(NamedTuple):
    """What one device of a request is to the policies."""

    plain: bool
    """Whether no device that suits draws from counters, so that each can be counted on its own"""
    units: int
    """Thousandths of a device that it takes: the largest part, where devices differ in capacity"""


_TAKING: Cache[Fleet, dict[RequestKey, Taking]] = Cache(lambda _: {}, on_fork=dict.copy)


def taking(option: RequestOption, snapshot: Snapshot) -> Taking:
    """What one device of a request is. Cached by fleet."""
    known = _TAKING.of(snapshot.fleet)
    if option.key not in known:
        static, sets = match_in_fleet(option, snapshot), snapshot.fleet.sets
        plain = not sets.shape[1] or not bool((sets[static.suitable] >= 0).any())
        shared = bool(snapshot.fleet.shared[static.suitable].any()) and snapshot.rules.sharing
        known[option.key] = Taking(plain, _units(static) if shared else WHOLE)
    return known[option.key]


def _units(static: StaticMatch) -> int:
    return max(
        [
            -(-amount.nanos * WHOLE // taken.total[key])
            for taken in static.consumption.values()
            if isinstance(taken, Consumption) and taken.fits({})
            for key, amount in taken.taken.items()
            if taken.total[key] > 0
        ],
        default=WHOLE,
    )


def need_of(option: RequestOption | None, cores: int, snapshot: Snapshot) -> Need:
    """What a request and its pod take."""
    if option is None:
        return Need(cores, 0, 0)
    return Need(cores, taking(option, snapshot).units, max(option.source.wanted, 1))


def nodes_of(option: RequestOption | None, snapshot: Snapshot) -> Mask:
    """(N,) nodes with a device that suits; all nodes if none is asked for."""
    codes = np.maximum(snapshot.topology.order_codes, -1)
    if option is None:
        return np.ones(len(codes), dtype=np.bool_)
    suits = np.zeros(len(snapshot.fleet.vocabulary.nodes.values) + 1, dtype=np.bool_)
    suits[snapshot.fleet.codes["node"][match_in_fleet(option, snapshot).suitable]] = True
    suits[-1] = False  # devices that several nodes reach
    found: Mask = suits[codes]
    return found


def device_rows(snapshot: Snapshot) -> Rows:
    """(N, G) rows of the devices of each node that draw from no counters; -1 where there are fewer."""
    fleet, topology = snapshot.fleet, snapshot.topology
    rows = np.flatnonzero((fleet.codes["node"] >= 0) & ~(fleet.sets >= 0).any(axis=1))
    place = topology.place_of[fleet.codes["node"][rows]]
    rows, place = rows[place >= 0], place[place >= 0]
    order = np.argsort(place, kind="stable")
    rows, place = rows[order], place[order]
    number = np.arange(len(rows)) - np.searchsorted(place, place)
    found: Rows = np.full((len(topology.order), int(number.max(initial=0)) + 1), -1, dtype=np.intp)
    found[place, number] = rows
    return found


HEAVIEST = 2**14
"""Weights are scaled to at most this"""
MOST_DEVICES = 8
"""Shapes that ask for more devices count as shapes of so many"""
COUNTS = lcm(*range(1, MOST_DEVICES + 1))
"""Weights are multiples of it, so that each device of a shape is a whole part of its weight"""


class Wanted(Struct, frozen=True):
    """One request of a shape of the demand."""

    option: RequestOption
    count: int
    """Devices, at most `MOST_DEVICES`"""
    weight: int
    """At most `HEAVIEST` for each shape that asks for it"""

    @property
    def of_device(self) -> int:
        """The part of the weight, times `COUNTS`, that each of its devices has."""
        return self.weight * (COUNTS // self.count)


def requests_of(demand: Demand, snapshot: Snapshot) -> tuple[Wanted, ...]:
    """All distinct requests. One is worth its size in each shape, unless the demand says otherwise."""
    values = [
        (slot.options[0], shape.value or size_of(slot.options[0], snapshot))
        for shape in demand.shapes
        for slot in shape.slots(snapshot)
    ]
    heaviest = max((value for _, value in values), default=1)
    found: dict[tuple[RequestKey, int], Wanted] = {}
    for option, value in values:
        count = min(max(option.source.wanted, 1), MOST_DEVICES)
        weight = max(value * HEAVIEST // heaviest, 1)
        # Shapes differ in the CPU of their pods more often than in their requests.
        known = found.get((option.key, count))
        found[option.key, count] = Wanted(option, count, weight + (known.weight if known else 0))
    return tuple(found.values())


def size_of(option: RequestOption, snapshot: Snapshot) -> int:
    """Thousandths of all devices that the request takes; at least 1."""
    one = taking(option, snapshot)
    units = one.units
    if not one.plain:
        units = int(sizes(snapshot.fleet)[match_in_fleet(option, snapshot).suitable].max(initial=1))
    return max(units, 1) * max(option.source.wanted, 1)


@derived
def sizes(fleet: Fleet) -> Amounts:
    """(D,) thousandths of its sets that a device draws, the mean over their counters; 1000 without sets."""
    found: Amounts = np.where((fleet.sets >= 0).any(axis=1), 0, WHOLE)
    if not len(fleet.totals):
        return found
    # Most sets publish the same: each draw is evaluated once for all of them.
    totals, kinds = np.unique(fleet.totals, axis=0, return_inverse=True)
    kind = kinds.reshape(-1).astype(np.int64)
    for k in range(fleet.sets.shape[1]):
        rows = np.flatnonzero(fleet.sets[:, k] >= 0)
        pairs = fleet.draws[rows, k].astype(np.int64) << 32 | kind[fleet.sets[rows, k]]
        pairs, which = np.unique(pairs, return_inverse=True)
        total = totals[pairs & 0xFFFFFFFF]
        scale = (total >> 40) + 1  # so that thousandths of large amounts do not overflow
        drawn = np.minimum(fleet.table[pairs >> 32], total) // scale * WHOLE // np.maximum(total // scale, 1)
        mean = drawn.sum(axis=1) // np.maximum(np.count_nonzero(total, axis=1), 1)
        found[rows] += mean[which.reshape(-1)]
    return np.maximum(found, 1)
