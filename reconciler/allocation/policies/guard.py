"""The guard of `least-loss`: claims that may go anywhere leave the nodes that others ask for by name.

A claim names nodes by what only they have: a model, or a profile. The pressure on a node is how much of the
demand names it, relative to the devices of all nodes that are named with it. What a node loses costs more
where the pressure is higher. `expected-fill` has a guard like this for whole and shared devices.
"""

from collections import OrderedDict

import numpy as np

from kernels.types import Amounts, Rows
from reconciler.allocation.dra.static_match import match_in_fleet
from reconciler.allocation.policies.by_device import FARTHEST
from reconciler.allocation.policies.compiled_demand import size_of
from reconciler.allocation.policies.demand import Demand
from reconciler.allocation.policies.policy import LAST
from reconciler.allocation.policies.set_losses import FULLNESS, WHOLE
from reconciler.state.caches import Cache, share
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.snapshot import Snapshot, Topology

PRICE = 4
"""What a node loses costs more by so many times its pressure"""
MOST = 60 * WHOLE
"""More pressure counts as so much, times `PRICE`, so that keys stay below `LAST`"""
PARTS = 10
"""Binary digits of a price after the point"""
KEPT = 4
"""Demands whose pressure is cached for one topology: the one in use, and those that it replaced"""


def guarded_keys(keys: Amounts, demand: Demand, snapshot: Snapshot) -> Amounts:
    """(N,) the keys of `least-loss` for nodes with the price of pressure on what each loses."""
    pressing = _pressing(demand, snapshot)
    if pressing is None:
        return keys
    fullness = keys % FULLNESS
    found: Amounts = (keys // FULLNESS * pressing >> PARTS) * FULLNESS + fullness
    return np.where(keys < FARTHEST, found, LAST)


_PRESSING: Cache[Topology, OrderedDict[str, tuple[object, Amounts | None]]] = Cache(lambda _: OrderedDict())


def _pressing(demand: Demand, snapshot: Snapshot) -> Amounts | None:
    """(N,) what a loss on each node is multiplied with, times 2^`PARTS`; None if all are equal.

    Cached by topology and classes.
    """
    known = _PRESSING.of(snapshot.topology)
    classes, found = known.get(demand.digest, (None, None))
    if classes is not snapshot.classes:
        price = (WHOLE + np.minimum(PRICE * pressure(demand, snapshot), MOST) << PARTS) // WHOLE
        found = price if len(price) and (price != price[0]).any() else None
        known[demand.digest] = snapshot.classes, found
        if len(known) > KEPT:
            known.popitem(last=False)
    return found


def pressure(demand: Demand, snapshot: Snapshot) -> Amounts:
    """(N,) thousandths of each node's devices that shapes ask for that cannot go everywhere.

    A shape that names several nodes presses on each the same, relative to the devices of all of them.
    """
    size = _count(_FIRST.of(snapshot.fleet), snapshot)  # all that draw from one counter set are one device
    pressing, total = [], 0
    for shape in demand.shapes:
        for slot in shape.slots(snapshot):
            suitable = match_in_fleet(slot.options[0], snapshot).suitable
            nodes = _count(np.flatnonzero(suitable), snapshot) > 0
            asked = shape.weight * size_of(slot.options[0], snapshot)
            total += asked
            if not (nodes | (size == 0)).all():
                pressing.append((nodes, asked))
    found: Amounts = np.zeros(len(size), dtype=np.int64)
    for nodes, asked in pressing:
        if own := int(size[nodes].sum()):
            found[nodes] += WHOLE * asked * int(size.sum()) // (total * own)
    return found


def _count(rows: Rows, snapshot: Snapshot) -> Amounts:
    """(N,) how many of these rows belong to each node."""
    codes = snapshot.fleet.codes["node"][rows]
    size = len(snapshot.fleet.vocabulary.nodes.values)
    per_code = np.bincount(codes[codes >= 0], minlength=size + 1)
    at = snapshot.topology.order_codes
    found: Amounts = np.where(at >= 0, per_code[np.maximum(at, 0)], 0).astype(np.int64)
    return found


def _first_rows(fleet: Fleet) -> Rows:
    """Rows that stand for a device each: those without counter sets, and the first of each set."""
    if not fleet.sets.shape[1]:
        return np.arange(fleet.size)
    first = fleet.sets[:, 0]
    drawing = np.flatnonzero(first >= 0)
    _, at = np.unique(first[drawing], return_index=True)
    found: Rows = np.concatenate([np.flatnonzero((fleet.sets < 0).all(axis=1)), drawing[at]])
    return found


_FIRST = Cache(_first_rows, on_fork=share)
