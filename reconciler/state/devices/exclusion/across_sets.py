"""Expressions that are not true for devices of other counter sets. Nothing depends on them (GRP-10)."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kernels.types import Mask, Rows
from reconciler.api.objects.semantics import Semantics
from reconciler.state.devices.exclusion.expressions import evaluate
from reconciler.state.devices.exclusion.pairs import JudgedPairs, judged_pairs
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.pools.pool import Pool


class AcrossSets(NamedTuple):
    """A device whose expression is not true for devices that it is not compared with."""

    row: int
    """Row of the fleet"""
    others: Rows
    """(n,) rows of the fleet; not empty"""


def across_sets(fleet: Fleet, rules: Semantics) -> Iterator[AcrossSets]:
    """One device for each expression of a driver, from the first pool that has one. Evaluates them again."""
    reported: set[tuple[str, str]] = set()
    for pool, start in zip(fleet.pools, fleet.start.tolist(), strict=False):
        if rules.exclusion_scope(pool.id.driver) == "pool" or not any(block.states for block in pool.blocks):
            continue
        for found, expression in _of_pool(pool, fleet):
            if (pool.id.driver, expression) not in reported:
                reported.add((pool.id.driver, expression))
                yield AcrossSets(found.row + start, found.others + start)


def _of_pool(pool: Pool, fleet: Fleet) -> Iterator[tuple[AcrossSets, str]]:
    devices = [device for block in pool.blocks for device in block.slice.spec.devices]
    pairs = judged_pairs(pool.blocks, pool.counters, everywhere=False)
    steps = evaluate(pool.id, pool.blocks, devices, pairs, fleet.vocabulary)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            stated, _ = done.value
            break
    for one in stated:
        for row in np.flatnonzero(one.by & ~pairs.alone).tolist():
            others = np.flatnonzero(~one.true & _elsewhere(pairs, row))
            stating = devices[row].compatible_only_with
            if len(others) and stating is not None:
                yield AcrossSets(row, others), stating.expression
                break


def _elsewhere(pairs: JudgedPairs, row: int) -> Mask:
    """(n,) devices of the same place that draw from other counter sets only."""
    own = pairs.sets[row]
    shared = np.isin(pairs.sets, own[own >= 0]).any(axis=1)
    found: Mask = (pairs.place == pairs.place[row]) & ~pairs.alone & ~shared
    return found
