"""How much of a machine a sampled demand fills. Devices are taken by best fit. Integers only."""

from typing import NamedTuple

import numpy as np

from kernels.fragmentation import WHOLE, Demand, Machines
from kernels.types import Amounts, Codes, Mask

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
