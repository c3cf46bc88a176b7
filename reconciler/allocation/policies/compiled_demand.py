"""A demand over the nodes of one topology: nodes that serve the same shapes are one model."""

from math import lcm
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kernels.fragmentation import Demand as KernelDemand
from kernels.fragmentation import Need
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.dra.consumption import Consumption
from reconciler.allocation.dra.request_options import RequestKey, RequestOption, Slot
from reconciler.allocation.dra.static_match import StaticMatch, match_in_fleet
from reconciler.allocation.policies.demand import Demand
from reconciler.allocation.policies.set_losses import WHOLE
from reconciler.state.caches import Cache, share
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.snapshot import Snapshot

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
        serving.append(_nodes_of(option, snapshot))
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


def _nodes_of(option: RequestOption | None, snapshot: Snapshot) -> Mask:
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


def _sizes(fleet: Fleet) -> Amounts:
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


_SIZES = Cache(_sizes, on_fork=share)


def sizes(fleet: Fleet) -> Amounts:
    """(D,) thousandths of its sets that a device draws. Cached by fleet."""
    return _SIZES.of(fleet)
