"""How much of what is free the demand cannot use: fragmentation as in the paper on FGD (ATC'23).

A machine has cores, a model, and devices of which thousandths are free. A kind of demand needs cores, some
models, and a number of devices with so many thousandths free each. All amounts and results are integers.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kernels.groups import distinct
from kernels.types import Amounts, Codes, Mask, Rows

WHOLE = 1000
"""Thousandths of one device"""
NEVER = np.iinfo(np.int64).min
"""The score of a machine on which the demand does not fit"""

_THRESHOLDS = np.array(
    [0 if k == 50 else WHOLE * np.log(k / (100 - k)) for k in range(1, 100)], dtype=np.float64
)
"""Greatest change of fragmentation below which floor(100 sigmoid(change / 1000)) is less than 1, 2, ... 99"""


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """T kinds of demand."""

    cores: Amounts
    """(T,)"""
    units: Amounts
    """(T,) thousandths of each device"""
    count: Amounts
    """(T,) devices; 0 for a kind that needs none"""
    models: Mask
    """(T, M) models that the kind may use"""
    weight: Amounts
    """(T,) how often it is asked for"""

    def only(self, kinds: Rows) -> "Demand":
        """Some of the kinds."""
        return Demand(
            self.cores[kinds], self.units[kinds], self.count[kinds], self.models[kinds], self.weight[kinds]
        )


class Machines(NamedTuple):
    """B machines of at most G devices."""

    cores: Amounts
    """(B,) free"""
    model: Codes
    """(B,)"""
    free: Amounts
    """(B, G) thousandths of each device; 0 where a machine has fewer devices"""


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Demand as tables, in which one row serves all kinds that ask for the same devices (Q groups)."""

    total: int
    """Sum of all weights"""
    steps: Amounts
    """(C,) the distinct amounts of cores, rising"""
    weight: Amounts
    """(C + 1, M, Q) the weight of the kinds that fit the model and so many steps of cores"""
    count: Amounts
    """(Q,) devices"""
    level: Codes
    """(Q,) position of the units among U distinct ones"""
    enough: Amounts
    """(1001, U) 1 where a device with so many thousandths free has enough"""
    thresholds: Amounts
    """(99,) the least changes that give 1, 2, ... 99 points"""


def compile_demand(demand: Demand) -> Tables:
    """The tables of a demand."""
    asks = demand.count > 0
    steps = distinct(demand.cores[asks])
    levels, level = np.unique(demand.units[asks], return_inverse=True)
    kinds, group = np.unique(np.stack([level.reshape(-1), demand.count[asks]]), axis=1, return_inverse=True)
    weight = np.zeros((len(steps) + 1, demand.models.shape[1], kinds.shape[1]), dtype=np.int64)
    first = np.searchsorted(steps, demand.cores[asks]) + 1
    for at, of_group, models, share in zip(
        first.tolist(), group.reshape(-1).tolist(), demand.models[asks], demand.weight[asks], strict=True
    ):
        weight[at, models, of_group] += share
    total = int(demand.weight.sum())
    return Tables(
        total=total,
        steps=steps,
        weight=weight.cumsum(axis=0),
        count=kinds[1].astype(np.int64),
        level=kinds[0].astype(np.int32),
        enough=(np.arange(WHOLE + 1)[:, None] >= levels).astype(np.int64),
        thresholds=np.ceil(_THRESHOLDS * total).astype(np.int64),
    )


def usable(tables: Tables, machines: Machines) -> Amounts:
    """(B,) sum over the demand of weight x thousandths that it can use; 0 where a kind does not fit."""
    each = tables.enough[machines.free]
    return _weighed(tables, machines, each.sum(axis=1), (each * machines.free[:, :, None]).sum(axis=1))


def _weighed(tables: Tables, machines: Machines, fitting: Amounts, useful: Amounts) -> Amounts:
    """The same from (B, U) devices with enough units, and the thousandths that are free on those."""
    steps = np.searchsorted(tables.steps, machines.cores, side="right")
    weight = tables.weight[steps, machines.model]
    fits = fitting[:, tables.level] >= tables.count
    found: Amounts = (weight * fits * useful[:, tables.level]).sum(axis=1)
    return found


@dataclass(frozen=True, slots=True)
class Need:
    """What is to be placed: one kind of demand without its models."""

    cores: int
    units: int
    count: int


def points(tables: Tables, need: Need, machines: Machines) -> tuple[Amounts, Codes]:
    """(B,) points from 0 to 99 for a machine, and (B,) the device to take part of.

    More points for less fragmentation afterwards. `NEVER` where the need does not fit. The device is -1 if
    the need is none or whole devices: those take the first that are free.
    """
    shared = need.count == 1 and need.units < WHOLE
    return _shared(tables, need, machines) if shared else _whole(tables, need, machines)


def _whole(tables: Tables, need: Need, machines: Machines) -> tuple[Amounts, Codes]:
    enough = machines.free >= max(need.units, 1)
    taken = enough & (enough.cumsum(axis=1) <= need.count)
    after = Machines(machines.cores - need.cores, machines.model, machines.free - taken * need.units)
    fits = (after.cores >= 0) & (np.count_nonzero(enough, axis=1) >= need.count)
    drop = need.units * need.count * tables.total
    change = drop - (usable(tables, machines) - usable(tables, after))
    found = np.searchsorted(tables.thresholds, change, side="right")
    return np.where(fits, found, NEVER), np.full(len(found), -1, dtype=np.int32)


def _shared(tables: Tables, need: Need, machines: Machines) -> tuple[Amounts, Codes]:
    before = machines.free
    each = tables.enough[before]
    fitting, useful = each.sum(axis=1), (each * before[:, :, None]).sum(axis=1)
    now = _weighed(tables, machines, fitting, useful)
    at, device = np.nonzero((before >= need.units) & (machines.cores >= need.cores)[:, None])
    old, new = before[at, device], before[at, device] - need.units
    enough_then = tables.enough[new]
    then = _weighed(
        tables,
        Machines(machines.cores[at] - need.cores, machines.model[at], before[:0]),
        fitting[at] - each[at, device] + enough_then,
        useful[at] - each[at, device] * old[:, None] + enough_then * new[:, None],
    )
    change = need.units * tables.total - (now[at] - then)
    found = np.full(before.shape, NEVER)
    found[at, device] = np.searchsorted(tables.thresholds, change, side="right")
    best = found.argmax(axis=1)
    return found[np.arange(len(before)), best], best.astype(np.int32)


ROUND = 12
"""Needs of each sequence that are placed before those that no longer fit are dropped"""


class Sequences(NamedTuple):
    """S sequences of L needs each, drawn from a demand."""

    demand: Demand
    kinds: Codes
    """(S, L) row of the demand"""


def filled(sequences: Sequences, machines: Machines) -> Amounts:
    """(B,) thousandths that the sequences fill, each alone on the machine, summed over all sequences.

    A need that does not fit is skipped, and the sequence goes on.
    """
    demand, (count, length) = sequences.demand, sequences.kinds.shape
    of = np.repeat(np.arange(len(machines.cores)), count)
    kinds = np.tile(sequences.kinds, (len(machines.cores), 1))
    cores, model, free = machines.cores[of], machines.model[of], machines.free[of]
    placed = np.zeros(len(machines.cores), dtype=np.int64)
    open_ = np.ones(kinds.shape, dtype=np.bool_)
    while True:
        open_ &= _fits(demand, cores, model, free)[np.arange(len(kinds))[:, None], kinds]
        waiting = open_.sum(axis=1)
        if not waiting.any():
            return placed
        rows = np.argsort(-waiting, kind="stable")
        rows = rows[: np.count_nonzero(waiting)]
        of, kinds, open_ = of[rows], kinds[rows], open_[rows]
        cores, model, free = cores[rows], model[rows], free[rows]
        waiting = np.minimum(waiting[rows], ROUND)
        next_, queue = _queues(open_, kinds)
        amounts = np.zeros(len(rows), dtype=np.int64)
        units, wanted, needed = demand.units[queue], demand.count[queue], demand.cores[queue]
        several = np.any(wanted > 1, axis=0)
        active = np.searchsorted(-waiting, -np.arange(ROUND), side="left").tolist()
        for step in range(int(waiting[0])):
            part = slice(active[step])
            place = _place_any if several[step] else _place_one
            amounts[part] += place(
                units[part, step], wanted[part, step], needed[part, step], cores[part], free[part]
            )
        placed += np.bincount(of, weights=amounts, minlength=len(placed)).astype(np.int64)
        open_ &= np.arange(length) >= next_[:, None]


def _fits(demand: Demand, cores: Amounts, model: Codes, free: Amounts) -> Mask:
    """(R, T) whether each kind fits each row now."""
    whole = np.count_nonzero(free == WHOLE, axis=1)
    most = free.max(axis=1, initial=0)
    found: Mask = (
        (demand.cores <= cores[:, None])
        & demand.models.T[model]
        & (demand.units <= most[:, None])
        & ((demand.count <= 1) | (demand.count <= whole[:, None]))
    )
    return found


def _queues(open_: Mask, kinds: Codes) -> tuple[Amounts, Codes]:
    """(R,) where each row continues afterwards, and (R, ROUND) its next open needs."""
    rank = open_.cumsum(axis=1)
    at, step = np.nonzero(open_ & (rank <= ROUND))
    queue = np.zeros((len(open_), ROUND), dtype=kinds.dtype)
    queue[at, rank[at, step] - 1] = kinds[at, step]
    next_ = np.zeros(len(open_), dtype=np.int64)
    next_[at] = step + 1  # the steps of a row rise, and the last one stays
    return next_, queue


def _place_one(units: Amounts, wanted: Amounts, needed: Amounts, cores: Amounts, free: Amounts) -> Amounts:
    """(R,) place one need of one device in each row, if it fits, and return the thousandths placed.

    Writes cores and free. `wanted` is the number of devices: 1, or more where the need is left alone.
    """
    room = np.where(free >= units[:, None], free, WHOLE + 1)
    best = room.argmin(axis=1)
    rows = np.arange(len(free))
    fits = (room[rows, best] <= WHOLE) & (needed <= cores) & (wanted == 1)
    amount = units * fits
    free[rows, best] -= amount
    cores -= needed * fits
    return amount


def _place_any(units: Amounts, wanted: Amounts, needed: Amounts, cores: Amounts, free: Amounts) -> Amounts:
    """The same where some needs want several whole devices."""
    amount = _place_one(units, wanted, needed, cores, free)
    whole = free == WHOLE
    fits = (wanted > 1) & (np.count_nonzero(whole, axis=1) >= wanted) & (needed <= cores)
    free -= WHOLE * (whole & (whole.cumsum(axis=1) <= wanted[:, None]) & fits[:, None])
    cores -= needed * fits
    amount += WHOLE * wanted * fits
    return amount
