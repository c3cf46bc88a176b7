"""The guard of `least-loss`: claims that may go anywhere leave the nodes that others ask for by name.

A claim names nodes by what only they have: a model, or a profile. The pressure on a node is how much of the
demand names it, relative to the devices of all nodes that are named with it. What a node loses costs more
where the pressure is higher. `expected-fill` has a guard like this for whole and shared devices.
"""

from collections import OrderedDict

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.request_options import RequestOption
from reconciler.allocation.dra.static_match import match_in_fleet
from reconciler.allocation.policies.by_device import FARTHEST
from reconciler.allocation.policies.compiled_demand import sizes, taking
from reconciler.allocation.policies.demand import Demand
from reconciler.allocation.policies.least_loss import LeastLoss
from reconciler.allocation.policies.policy import LAST, Policy, PolicyQuestion, SetJudge
from reconciler.allocation.policies.set_losses import FULLNESS, WHOLE
from reconciler.state.caches import Cache, share
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.snapshot import Snapshot, Topology, View

PRICE = 4
"""What a node loses costs more by so many times its pressure"""
MOST = 60 * WHOLE
"""More pressure counts as so much, times `PRICE`, so that keys stay below `LAST`"""
PARTS = 10
"""Binary digits of a price after the point"""
KEPT = 4
"""Demands whose pressure is cached for one topology: the one in use, and those that it replaced"""


class Guarded(Struct, frozen=True):
    """Orders nodes by what they lose, with the price of pressure; then as the policy does."""

    policy: LeastLoss

    @property
    def name(self) -> str:
        """See `Policy.name`."""
        return self.policy.name

    @property
    def seed(self) -> int:
        """See `Policy.seed`."""
        return self.policy.seed

    @property
    def digest(self) -> str:
        """See `Policy.digest`."""
        return self.policy.digest

    def nodes(self, question: PolicyQuestion, among: Mask) -> Amounts | None:
        """See `Policy.nodes`."""
        keys = self.policy.nodes(question, among)
        pressing = _pressing(self.policy.demand, question.snapshot)
        if keys is None or pressing is None:
            return keys
        fullness = keys % FULLNESS
        found: Amounts = (keys // FULLNESS * pressing >> PARTS) * FULLNESS + fullness
        return np.where(keys < FARTHEST, found, LAST)

    def devices(self, question: PolicyQuestion, candidates: Candidates, view: View) -> Rows | None:
        """See `Policy.devices`."""
        return self.policy.devices(question, candidates, view)

    def sets(self, question: PolicyQuestion, view: View) -> SetJudge | None:
        """See `Policy.sets`."""
        return self.policy.sets(question, view)


def guarded(policy: LeastLoss) -> Policy:
    """The policy with its guard. Without a demand, nothing is known of what others ask for."""
    return Guarded(policy) if policy.demand.shapes else policy


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
    size = _devices_of_nodes(snapshot)
    pressing, total = [], 0
    for shape in demand.shapes:
        for slot in shape.slots(snapshot):
            nodes = _nodes_of(slot.options[0], snapshot)
            asked = shape.weight * _asked(slot.options[0], snapshot)
            total += asked
            if not (nodes | (size == 0)).all():
                pressing.append((nodes, asked))
    found: Amounts = np.zeros(len(size), dtype=np.int64)
    for nodes, asked in pressing:
        if own := int(size[nodes].sum()):
            found[nodes] += WHOLE * asked * int(size.sum()) // (total * own)
    return found


def _asked(option: RequestOption, snapshot: Snapshot) -> int:
    """Thousandths of all devices that a request takes; of several partitions that suit, the largest."""
    one = taking(option, snapshot)
    units = one.units
    if not one.plain:
        units = int(sizes(snapshot.fleet)[match_in_fleet(option, snapshot).suitable].max(initial=1))
    return max(units, 1) * max(option.source.wanted, 1)


def _nodes_of(option: RequestOption, snapshot: Snapshot) -> Mask:
    """(N,) nodes with a device that suits."""
    return _count(np.flatnonzero(match_in_fleet(option, snapshot).suitable), snapshot) > 0


def _devices_of_nodes(snapshot: Snapshot) -> Amounts:
    """(N,) devices of each node; all that draw from one counter set are one device."""
    return _count(_FIRST.of(snapshot.fleet), snapshot)


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
