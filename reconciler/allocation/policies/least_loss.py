"""`least-loss`: prefers what leaves most of the demand a place.

The value of a node is the sum over the shapes of the demand of value x floor(devices on which the shape fits
now / devices that it asks for). The candidate that loses least of it wins, then the fuller counter set, then
first-fit order. A shape is worth its size unless the demand says otherwise: how often it is asked for does
not count, since frequent small shapes would close the places of rare large ones. Without a demand, every
device counts by its size.
"""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import compress

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.request_options import RequestKey, RequestOption
from reconciler.allocation.dra.static_match import match_in_fleet
from reconciler.allocation.policies.by_device import in_order, node_keys
from reconciler.allocation.policies.demand import NO_DEMAND, Demand
from reconciler.allocation.policies.group_losses import GroupLosses
from reconciler.allocation.policies.node_losses import NodeLosses
from reconciler.allocation.policies.policy import LAST, Question, SetJudge
from reconciler.allocation.policies.room_left import left_of_sets
from reconciler.allocation.policies.set_losses import FULLNESS, SetLosses
from reconciler.allocation.policies.shared_losses import SharedLosses
from reconciler.allocation.policies.wanted import Wanted, requests_of, sizes
from reconciler.state.caches import Cache
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.snapshot.snapshot import Snapshot, View

KEPT = 64
"""Requests whose losses of groups are kept for one demand"""


class LeastLoss(Struct, frozen=True):
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
        tables = _tables(self, question.snapshot)
        return NodeLosses(tables.wanted_on(view, question.snapshot), view, question.snapshot)

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
        groups = tables.of_groups(option, snapshot) if tables.groups else None
        if groups is not None and groups.none:
            groups = None
        if taken == 1 and groups is None:
            return least
        suits = least < LAST
        found = np.where(suits, least, 0) * taken
        if groups is not None:
            codes = np.maximum(snapshot.topology.order_codes, -1)
            found += groups.of_node[codes] * FULLNESS
        return np.where(suits, found, LAST)


class _Tables:
    """What is derived from one demand for one fleet, and follows the allocations."""

    def __init__(self, demand: Demand, snapshot: Snapshot) -> None:
        self.classes: object = snapshot.classes
        """What the requests were read with"""
        self.wanted: tuple[Wanted, ...] = requests_of(demand, snapshot)
        """The requests of the demand"""
        self.groups = any(one.count > 1 for one in self.wanted)
        """Whether some request asks for several devices"""
        self._sets = SetLosses(self._weigh, snapshot)
        self.only_sets = bool(self._sets.alone.all()) and not snapshot.fleet.shared.any()
        """Whether the losses of counter sets say all about every device"""
        self._shares: SharedLosses | None = None
        self._of_option: OrderedDict[tuple[RequestKey, int], GroupLosses] = OrderedDict()
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

    def of_groups(self, option: RequestOption, snapshot: Snapshot) -> GroupLosses:
        """What a request costs shapes of several devices."""
        at = option.key, option.source.wanted
        found = self._of_option.get(at)
        if found is None or not found.reaches(snapshot):
            found = self._of_option[at] = GroupLosses(self.wanted, option, snapshot)
            if len(self._of_option) > KEPT:
                self._of_option.popitem(last=False)
        self._of_option.move_to_end(at)
        found.follow(snapshot)
        return found

    def wanted_on(self, view: View, snapshot: Snapshot) -> Sequence[Wanted] | None:
        """The requests that a device of a node suits; None without a demand. Cached by view."""
        if not self.wanted:
            return None
        known = _SUITED.of(view)
        wanted, found = known.get("last", ((), ()))
        if wanted is not self.wanted:
            suited = (match_in_fleet(one.option, snapshot).suitable[view.rows].any() for one in self.wanted)
            found = tuple(compress(self.wanted, suited))
            known["last"] = self.wanted, found
        return found

    def _weigh(self, snapshot: Snapshot) -> Amounts:
        """(D,) the weight of the demand that each device could serve, or its size if there is no demand."""
        found: Amounts = np.zeros(snapshot.fleet.size, dtype=np.int64)
        for one in self.wanted:
            found[match_in_fleet(one.option, snapshot).suitable] += one.of_device
        return found if self.wanted else sizes(snapshot.fleet)


_SUITED: Cache[View, dict[str, tuple[Sequence[Wanted], Sequence[Wanted]]]] = Cache(lambda _: {})
"""`last`: the requests that were asked about last, and those of them that suit"""

_TABLES: Cache[Fleet, dict[tuple[str, ...], _Tables]] = Cache(lambda _: {})
"""The tables follow the allocations of one snapshot, so a fork has its own."""


def _tables(policy: LeastLoss, snapshot: Snapshot) -> _Tables:
    known = _TABLES.of(snapshot.fleet)
    found = known.get(policy.key)
    if found is None or found.classes is not snapshot.classes:
        found = known[policy.key] = _Tables(policy.demand, snapshot)
    return found
